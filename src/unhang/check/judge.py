"""From what the checks have seen to one verdict: ask every risk, join what several nodes say alike, rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from unhang.check.risks.all_risks import ALL_RISKS
from unhang.check.risks.risk import Answer, Risk
from unhang.check.suggested_environment import suggest_environment
from unhang.diagnosis.internal_failures import withdraw_health
from unhang.diagnosis.ranking import most_severe_first
from unhang.findings import Finding, NotChecked, PassedCheck, Severity, Status, Verdict
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import say

FOLLOWED = "program"
"""The check without which nothing is shown to be well, where it was asked: what was not read may hold anything."""


def judge(
    situations: Sequence[NodeInspection],
    checks: Iterable[str],
    gaps: Sequence[NotChecked] = (),
    risks: Sequence[Risk] = ALL_RISKS,
    form: str = "",
) -> Verdict:
    """The verdict on ``situations`` (one a node, or a rank under a launcher); only risks of ``checks`` are asked."""
    asked = set(checks)
    answers = [answer for risk in risks if risk.check in asked for answer in _ask(risk, situations)]
    findings = _ranked([answer for answer in answers if isinstance(answer, Finding)])
    wrong = any(finding.severity is not Severity.NOTE for finding in findings)
    ranks = tuple(sorted({s.rank for s in situations if s.rank is not None}))
    not_checked = tuple(dict.fromkeys([*gaps, *(a for a in answers if isinstance(a, NotChecked))]))
    checked = tuple(dict.fromkeys(a for a in answers if isinstance(a, PassedCheck)))
    followed = all(gap.check != FOLLOWED for gap in not_checked)
    well = followed and (bool(checked) or not not_checked)
    verdict = Verdict(
        status=Status.MISCONFIGURED if wrong else Status.HEALTHY if well else Status.UNKNOWN,
        world_size=len(ranks) or None,
        ranks_seen=ranks,
        ranks_missing=(),
        findings=findings,
        not_checked=not_checked,
        checked=checked,
        suggested=suggest_environment(situations[0], findings, form) if situations else None,
    )
    return withdraw_health(None, verdict)


def _ask(risk: Risk, situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """What ``risk`` says; one that fails costs only its own answer."""
    try:
        yield from (replace(answer, check=risk.check) for answer in _answers(risk, situations))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - the boundary of one question
        gap = NotChecked.after(error, say("the question {name}", name=risk.name))
        yield replace(gap, check=risk.check)


def _answers(risk: Risk, situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    if risk.ask is not None:
        for situation in situations:
            for answer in risk.ask(situation):
                yield _of_node(answer, situation.node) if len(situations) > 1 else answer
    if risk.compare is not None:
        yield from risk.compare(situations)


def _of_node(answer: Answer, node: str) -> Answer:
    return replace(answer, nodes=(node,)) if isinstance(answer, Finding) and not answer.nodes else answer


def _ranked(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """What stops before what slows before notes; the same of several nodes once, with all their names."""
    joined: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        key = (finding.check, finding.subject, str(finding.summary))
        known = joined.get(key)
        joined[key] = finding if known is None else replace(known, nodes=_both(known.nodes, finding.nodes))
    return tuple(sorted(joined.values(), key=most_severe_first))


def _both(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *other)))
