"""From what the checks have seen to one verdict: ask every risk, join what several nodes say alike, rank.

Beside the findings stands the environment to paste: what stays of the user's variables, what goes, what is added, in
the launcher's form.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from unhang.check.risks.all_risks import ALL_RISKS
from unhang.check.risks.risk import Answer, Risk
from unhang.check.risks.variables import FAMILIES
from unhang.diagnosis.internal_failures import withdraw_health
from unhang.diagnosis.ranking import most_severe_first
from unhang.findings import (
    Finding,
    NotChecked,
    PassedCheck,
    RemedyKind,
    Severity,
    Status,
    SuggestedEnvironment,
    Verdict,
)
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.job.workarounds import cause_worked_around
from unhang.program.launch.job_environment import JobEnvironment
from unhang.program.launch.launch import Launch
from unhang.sentences import Text, say

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
        gap = NotChecked.after(error, say("the check {name}", name=risk.name))
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


def suggest_environment(
    here: NodeInspection, findings: Sequence[Finding], form: str = ""
) -> SuggestedEnvironment | None:
    """The block for this node; None when no finding asks for another environment.

    ``form`` names one of :data:`FORMS`; empty: the one that fits the command. Of two wishes for one variable the more
    severe finding's counts: findings come ranked.
    """
    wishes = [
        remedy
        for finding in findings
        for remedy in finding.remedies[:1]
        if remedy.kind is RemedyKind.ENVIRONMENT and (remedy.set or remedy.unset)
    ]
    if not wishes:
        return None
    unset = tuple(dict.fromkeys(name for remedy in wishes for name in remedy.unset))
    added = {name: value for remedy in reversed(wishes) for name, value in remedy.set.items() if name not in unset}
    kept = {**_of_families(here, unset), **added}
    form = form or _form_of(here)
    without = f"# without: {', '.join(unset)}" if form == "kubernetes" else f"unset {' '.join(unset)}"
    text = "\n".join([*([without] if unset else []), *FORMS[form](kept)])
    return SuggestedEnvironment(kept, unset, form, text, _unless(here, unset))


def _unless(here: NodeInspection, unset: Sequence[str]) -> Text | None:
    """Settings that switch a transport off may be what keeps this machine going: `unhang bisect` finds out."""
    settings = here.found(JobEnvironment) or JobEnvironment({})
    names = [name for name in unset if cause_worked_around(name, settings.value(name) or "")]
    if not names:
        return None
    return say("unless `unhang bisect` shows that this machine needs {names}", names=", ".join(names))


def _form_of(here: NodeInspection) -> str:
    launch, settings = here.found(Launch) or Launch(), here.found(JobEnvironment) or JobEnvironment({})
    if settings.value("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    return next((name for name in (launch.outer, launch.launcher) if name in FORMS), "export")


def _of_families(here: NodeInspection, unset: Sequence[str]) -> dict[str, str]:
    settings = here.found(JobEnvironment) or JobEnvironment({})
    return {
        name: setting.value
        for name, setting in sorted(settings.in_force.items())
        if name.startswith(FAMILIES) and name not in unset and setting.origin in ("environment", "command")
    }


def _export(kept: Mapping[str, str]) -> list[str]:
    return [f"export {name}={shlex.quote(value)}" for name, value in kept.items()]


def _srun(kept: Mapping[str, str]) -> list[str]:
    pairs = ",".join(["ALL", *(f"{name}={shlex.quote(value)}" for name, value in kept.items())])
    return [f"srun --export={pairs} …"]


def _mpirun(kept: Mapping[str, str]) -> list[str]:
    return [" ".join(["mpirun", *(f"-x {name}={shlex.quote(value)}" for name, value in kept.items()), "…"])]


def _deepspeed(kept: Mapping[str, str]) -> list[str]:
    """DeepSpeed forwards NCCL* and PYTHON* by itself; ``.deepspeed_env`` brings the rest to the other nodes."""
    return ["cat > ~/.deepspeed_env <<EOF", *(f"{name}={value}" for name, value in kept.items()), "EOF"]


def _kubernetes(kept: Mapping[str, str]) -> list[str]:
    entries = [f'  - {{name: {name}, value: "{value}"}}' for name, value in kept.items()]
    return ["env:" if entries else "env: []", *entries]


FORMS: Mapping[str, Callable[[Mapping[str, str]], list[str]]] = {
    "export": _export,
    "srun": _srun,
    "mpirun": _mpirun,
    "deepspeed": _deepspeed,
    "kubernetes": _kubernetes,
}
"""Lines that set variables, by the launcher that takes them."""
