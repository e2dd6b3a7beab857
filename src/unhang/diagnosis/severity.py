"""How bad a finding is: in a job that went on after it, and in one that lives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from unhang.causes.wording.pace_reasons import slowdown_text
from unhang.diagnosis.restart import restart_after
from unhang.evidence.items import Progress
from unhang.facts.endings.good_endings import good_endings
from unhang.facts.laggard.user_marked_work import is_overlong, is_planned, marked_work
from unhang.facts.logs.event_timing import is_preparing
from unhang.facts.logs.log_statements import timeout_events
from unhang.facts.model import Facts
from unhang.facts.pace.step_slowdown import StepSlowdown, slowdown_until_end, step_slowdown
from unhang.facts.waiting.near_timeout import is_limit_near, live_manifest
from unhang.findings import Cause, Finding, PassedCheck, Restart, Severity, Source, Status, Verdict
from unhang.knowledge.messages import message_row
from unhang.knowledge.reasoning_rows import causes_that
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, say

_ENDS_A_PROCESS = frozenset(("exit", "killed", "restart", "aborted", "stuck"))
_RAISED = "py.error"
"""The last line of an exception, which the program may have caught."""


def downgrade_outlived(facts: Facts, verdict: Verdict) -> Verdict:
    """Makes a note of what stands before a good end of the job, where nothing else tells of trouble: no timeout, failed
    process or restart, and no sample of processes that stood.
    """
    ended = good_endings(facts)
    raised = bool(facts.tracebacks or facts.events_of(_RAISED))
    if not ended.last or _in_trouble(facts) or (raised and ended.whole is None):
        return verdict
    ends = {path: (ending.since_line, ending.source.line or 0) for path, ending in ended.last.items()}
    findings = (
        _outlived(f) if f.severity is Severity.STOPS and _is_covered_by(f, ends) else f for f in verdict.findings
    )
    return replace(verdict, findings=tuple(findings))


def place_among_notes(facts: Facts, leading: Finding, notes: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """``leading`` after the ``notes`` that explain it, and before those that steps outlived."""
    steps = {log.source.path: (0, _last_step(log.progress)) for log in facts.logs}
    outlived = tuple(note for note in notes if _is_covered_by(note, steps))
    return (*(note for note in notes if note not in outlived), leading, *outlived)


def _last_step(progress: Iterable[Progress]) -> int:
    counted = (run.last_line for run in progress if run.last_step > run.first_step and not is_preparing(run))
    return max(counted, default=0)


def _is_covered_by(finding: Finding, lines: Mapping[str, tuple[int, int]]) -> bool:
    """Each line it rests on stands in a log between the two lines named for it."""
    return bool(finding.evidence) and all(
        _is_between(e.source, *lines.get(e.source.path, (0, 0))) for e in finding.evidence
    )


def _is_between(source: Source, since: int, until: int) -> bool:
    return source.line is not None and since < source.line < until


def _in_trouble(facts: Facts) -> bool:
    if timeout_events(facts) or facts.graph.edges or facts.all_joined_stalls or facts.mismatches:
        return True
    if any(exit_.exit_code != 0 for exit_ in facts.exits):
        return True
    return bool(facts.events_where(lambda kind: kind != _RAISED and message_row(kind).says in _ENDS_A_PROCESS))


def _outlived(finding: Finding) -> Finding:
    because = say("the job went on after it and ended well")
    return replace(finding, severity=Severity.NOTE, because=(because, *finding.because))


def adjust_to_live_job(facts: Facts, verdict: Verdict) -> Verdict:
    """Changes how bad the findings are by how the job goes on: work of one rank only slows a job that lives on, until
    the limit is near; work that its program has marked is a note; a job that grew slower says since which step.
    """
    looked = live_manifest(facts)
    if not verdict.findings:
        return verdict
    growing = step_slowdown(facts) if _lacks_slowdown_start(facts) else None
    if growing is not None and verdict.findings[0].severity is not Severity.NOTE:
        verdict = _with_slowdown(verdict, growing)
    if verdict.findings[0].cause not in causes_that("work"):
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
    findings = tuple(
        replace(f, severity=Severity.NOTE) if f.cause in causes_that("work") else f for f in verdict.findings
    )
    verdict = replace(verdict, findings=findings, restart=_restart(verdict, findings))
    if any(finding.severity is not Severity.NOTE for finding in findings):
        return verdict
    if verdict.ranks_missing or verdict.unread:
        return replace(verdict, status=Status.UNKNOWN)
    planned = say("what {ranks:who} {ranks:does|do} is planned, by the program's own marks", ranks=findings[0].ranks)
    return replace(verdict, status=Status.HEALTHY, checked=(PassedCheck("health", planned),))


def _as_slow(verdict: Verdict) -> Verdict:
    """The same findings, but work of a laggard only slows the job down."""
    findings = tuple(
        replace(f, severity=Severity.SLOWS) if f.severity is Severity.STOPS and f.cause in causes_that("work") else f
        for f in verdict.findings
    )
    return replace(verdict, status=Status.SLOW, findings=findings, restart=_restart(verdict, findings))


def _restart(verdict: Verdict, findings: tuple[Finding, ...]) -> Restart:
    """What follows for a restart now that these findings stop nothing."""
    said = restart_after(findings)
    return replace(verdict.restart, advice=said.advice, exclude_nodes=said.exclude_nodes, because=said.because)
