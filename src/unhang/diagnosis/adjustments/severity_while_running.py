"""How bad work of one rank is: in a job that lives on it slows the others down, until their own limit is near."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from unhang.causes.wording.pace_reasons import slowdown_text
from unhang.diagnosis.context.health import proof_as_checks
from unhang.diagnosis.context.restart_advice import restart_after
from unhang.facts.laggard.user_marked_work import is_overlong, is_planned, marked_work
from unhang.facts.model import Facts
from unhang.facts.pace.step_slowdown import StepSlowdown, slowdown_until_end, step_slowdown
from unhang.facts.waiting.near_timeout import is_limit_near, live_manifest
from unhang.findings import Cause, Finding, Restart, Severity, Status, Verdict
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, say

WORK_CAUSES = frozenset((Cause.SINGLE_RANK_WORK, Cause.SLOW_DATA_LOADING, Cause.TIMEOUT_TOO_SHORT, Cause.SLOW_RANK))
"""The laggard gets on by itself."""


def adjust_to_live_job(verdict: Verdict, facts: Facts) -> Verdict:
    """``verdict`` adapted to a live job: since which step it is slower; milder where the job lived on and its laggard
    worked, far from its limit; no more than a note while that is work its author marked."""
    looked = live_manifest(facts)
    if not verdict.findings:
        return verdict
    growing = step_slowdown(facts) if _lacks_slowdown_start(facts) else None
    if growing is not None and verdict.findings[0].severity is not Severity.NOTE:
        verdict = _with_slowdown(verdict, growing)
    if verdict.findings[0].cause not in WORK_CAUSES:
        return verdict
    if looked is None:
        return verdict if slowdown_until_end(facts) is None else _as_slow(verdict)
    verdict = _with_marks(verdict, facts)
    near = is_limit_near(looked, facts)
    first = verdict.findings[0]
    if is_planned(facts, first.ranks) and not (near and first.cause is Cause.TIMEOUT_TOO_SHORT):
        return _as_note(verdict)
    idle = {process.rank for process in looked.processes if process.idle}
    if idle.issuperset(verdict.findings[0].ranks):
        return verdict
    if near:
        return verdict
    return _as_slow(verdict)


def _lacks_slowdown_start(facts: Facts) -> bool:
    return facts.straggler is None or facts.straggler.change is None


def _with_slowdown(verdict: Verdict, growing: StepSlowdown) -> Verdict:
    first = verdict.findings[0]
    said = slowdown_text(growing)
    if first.summary == said:
        return verdict
    remedies = (remedy("profile-growing-step-time"),) if first.cause is Cause.UNKNOWN else ()
    first = replace(
        first,
        because=(said, *first.because),
        evidence=tuple(dict.fromkeys((*first.evidence, growing.evidence))),
        remedies=(*first.remedies, *remedies),
    )
    return replace(verdict, findings=(first, *verdict.findings[1:]))


def _with_marks(verdict: Verdict, facts: Facts) -> Verdict:
    """With what the program itself says of the work."""
    first = verdict.findings[0]
    if first.cause is Cause.TIMEOUT_TOO_SHORT:
        return verdict
    because = (*first.because, *_mark_reasons(facts, first.ranks))
    return replace(verdict, findings=(replace(first, because=because), *verdict.findings[1:]))


def _mark_reasons(facts: Facts, ranks: tuple[int, ...]) -> Iterator[Text]:
    for rank, work in marked_work(facts, ranks).items():
        if work.at_most_s is None:
            yield say("rank {rank} says of itself that it is in {label}", rank=rank, label=work.label)
        elif is_overlong(work):
            yield say(
                "rank {rank} has been in {label} for {gone:.0f} s; its program allows {limit:g} s",
                rank=rank,
                label=work.label,
                gone=work.gone_s,
                limit=work.at_most_s,
            )
        else:
            yield say(
                "rank {rank} says of itself that it is in {label}, which may take {limit:g} s",
                rank=rank,
                label=work.label,
                limit=work.at_most_s,
            )


def _as_note(verdict: Verdict) -> Verdict:
    """Nothing is wrong as long as the work ends as planned."""
    findings = tuple(replace(f, severity=Severity.NOTE) if f.cause in WORK_CAUSES else f for f in verdict.findings)
    verdict = replace(verdict, findings=findings, restart=_restart(verdict, findings))
    if any(finding.severity is not Severity.NOTE for finding in findings):
        return verdict
    if verdict.ranks_missing or verdict.unread:
        return replace(verdict, status=Status.UNKNOWN)
    planned = say("what {ranks:who} {ranks:does|do} is planned, by the program's own marks", ranks=findings[0].ranks)
    return replace(verdict, status=Status.HEALTHY, checked=proof_as_checks((planned,)))


def _as_slow(verdict: Verdict) -> Verdict:
    """The same findings, but work of a laggard only slows the job down."""
    findings = tuple(
        replace(f, severity=Severity.SLOWS) if f.severity is Severity.STOPS and f.cause in WORK_CAUSES else f
        for f in verdict.findings
    )
    return replace(verdict, status=Status.SLOW, findings=findings, restart=_restart(verdict, findings))


def _restart(verdict: Verdict, findings: tuple[Finding, ...]) -> Restart:
    """What follows for a restart now that these findings stop nothing."""
    said = restart_after(findings)
    return replace(verdict.restart, advice=said.advice, exclude_nodes=said.exclude_nodes, because=said.because)
