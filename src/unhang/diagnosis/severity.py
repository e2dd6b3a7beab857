"""How bad a finding is: in a job that went on after it, and in one that lives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from unhang.diagnosis.grades import is_guess
from unhang.evidence.items import LogEvent, Progress
from unhang.facts.endings.good_endings import good_endings, last_attempt, ran_again
from unhang.facts.incident_features import was_seen_stuck
from unhang.facts.laggard.laggards import laggards_doing
from unhang.facts.laggard.own_work import Work
from unhang.facts.laggard.planned_work import is_planned
from unhang.facts.logs.event_timing import is_preparing
from unhang.facts.logs.log_statements import timeout_events
from unhang.facts.model import Facts
from unhang.facts.pace.step_slowdown import slowdown_until_end
from unhang.facts.waiting.timeouts import is_limit_near, live_manifest
from unhang.findings import Cause, Certainty, Finding, Health, Severity, Verdict
from unhang.knowledge.messages import message_row
from unhang.knowledge.reasoning_rows import causes_that
from unhang.sentences import Text, say

_ENDS_A_PROCESS = frozenset(("exit", "killed", "restart", "aborted", "stuck"))
_RAISED = "py.error"
"""The last line of an exception, which the program may have caught."""


def downgrade_outlived(facts: Facts, verdict: Verdict) -> Verdict:
    """Makes a note of what stands before a good end of the job, and of what nothing explains and stands before a loop
    that steps or behind a reported end, where nothing else tells of trouble: no timeout, failed process or restart, and
    no sample of processes that stood. What happened in an attempt before the one that ended well is no trouble, nor is
    an end of processes long before further steps.
    """
    ended = good_endings(facts)
    raised = bool(facts.tracebacks or facts.events_of(_RAISED))
    if (
        _in_trouble(facts, last_attempt(facts))
        or (raised and ended.whole is None)
        or (not ended.last and was_seen_stuck(facts))
    ):
        return verdict
    ends = {path: (ending.since_line, ending.source.line or 0) for path, ending in ended.last.items()}
    starts = _outlived_lines(facts, _last_loop)
    ended_well, stepped = say("the job went on after it and ended well"), say("the job kept making steps after it")
    left = _after_the_end(facts)
    findings = [
        _outlived(finding, ended_well)
        if _is_covered_by(finding, ends)
        else _outlived(finding, stepped)
        if is_guess(finding) and _is_covered_by(finding, starts)
        else _outlived(finding, say("the end of the job was reported before it"))
        if is_guess(finding) and _is_covered_by(finding, left)
        else finding
        for finding in verdict.findings
    ]
    return replace(verdict, findings=tuple(findings))


def place_among_notes(facts: Facts, leading: Finding, notes: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """``leading`` after the ``notes`` that explain it, before those that steps outlived or that came after the end."""
    steps = _outlived_lines(facts, _last_step)
    left = _after_the_end(facts)
    outlived = tuple(note for note in notes if _is_covered_by(note, steps) or _is_covered_by(note, left))
    return (*(note for note in notes if note not in outlived), leading, *outlived)


def _after_the_end(facts: Facts) -> Mapping[str, tuple[float, float]]:
    return {path: (ending.source.line or 0, math.inf) for path, ending in good_endings(facts).last.items()}


def _last_step(progress: Iterable[Progress]) -> int:
    counted = (run.last_line for run in progress if run.last_step > run.first_step and not is_preparing(run))
    return max(counted, default=0)


def _outlived_lines(facts: Facts, until: Callable[[Iterable[Progress]], int]) -> Mapping[str, tuple[float, float]]:
    """Between which lines of each log the job stepped on after what is said. In a log that counts no steps, as of ranks
    that leave this to rank 0: before the first of a kind that no log with steps has there."""
    ends: dict[str, float] = {log.source.path: until(log.progress) for log in facts.logs}
    outlived = {event.kind for log in facts.logs for event in log.events if _line(event) < ends[log.source.path]}
    for log in facts.logs:
        if not ends[log.source.path]:
            others = (_line(event) for event in log.events if event.kind not in outlived)
            ends[log.source.path] = min(others, default=math.inf)
    return {path: (0, end) for path, end in ends.items()}


def _line(event: LogEvent) -> int:
    return event.source.line or 0


def _last_loop(progress: Iterable[Progress]) -> int:
    began = (run.source.line or 0 for run in progress if run.last_step > run.first_step and not is_preparing(run))
    return max(began, default=0)


def _is_covered_by(finding: Finding, lines: Mapping[str, tuple[float, float]]) -> bool:
    """Each line it rests on stands in a log between the two lines named for it."""
    placed = [(e.source.line or 0, *lines.get(e.source.path, (0, 0))) for e in finding.evidence]
    return bool(placed) and all(since < line < until for line, since, until in placed)


def _in_trouble(facts: Facts, attempt: int) -> bool:
    """From ``attempt`` on; facts about ranks are of the first."""
    if not attempt and (facts.graph.edges or facts.all_joined_stalls or facts.mismatches):
        return True
    if any(exit_.exit_code != 0 and exit_.attempt >= attempt for exit_ in facts.exits):
        return True
    ends = facts.events_where(lambda row: row.id != _RAISED and row.says in _ENDS_A_PROCESS)
    ended = (event for event in ends if not ran_again(facts, event))
    return any(_last_attempt_of(event) >= attempt for event in (*timeout_events(facts), *ended))


def _last_attempt_of(event: LogEvent) -> int:
    """The last attempt that it ended: a restart is counted to the one that it begins."""
    row = message_row(event.kind)
    return event.attempt - (row.says == "restart" and event.attempt > 0)


def _outlived(finding: Finding, because: Text) -> Finding:
    if finding.severity is not Severity.STOPS:
        return finding
    return replace(finding, severity=Severity.NOTE, because=(because, *finding.because))


def soften_work(facts: Facts, verdict: Verdict) -> Verdict:
    """Decides whether a rank that the others wait for hangs a job that lives on, or slows it. It slows it while it
    works and the limit of the wait is not near; it hangs it once it used neither CPU nor files between two
    samples. Work that its program has marked is a note, and proof enough that the job is well.
    """
    lead = verdict.findings[0] if verdict.findings else None
    if lead is None or lead.cause not in causes_that("work"):
        return verdict
    looked = live_manifest(facts)
    if looked is None:
        return verdict if slowdown_until_end(facts) is None else _with_work(verdict, Severity.SLOWS)
    near = is_limit_near(looked, facts)
    if is_planned(facts, lead.ranks) and not (near and lead.cause is Cause.TIMEOUT_TOO_SHORT):
        return _planned(_with_work(verdict, Severity.NOTE))
    if not lead.ranks:
        return verdict
    if {process.rank for process in looked.processes if process.idle}.issuperset(lead.ranks):
        unused = say("{ranks:who} used neither CPU nor files between two samples", ranks=lead.ranks)
        return _because(verdict, unused)
    if near:
        return _because(verdict, say("the limit of this wait is near"))
    at_work = [work for at, work in laggards_doing(facts, Work) if set(lead.ranks) <= set(at.stall.laggards)]
    if any(work.stands for work in at_work):
        return verdict
    stays = lead.severity is Severity.SLOWS or any(work.inside is not None and work.inside.stays for work in at_work)
    slows = _with_work(verdict, Severity.SLOWS)
    if stays or not all(facts.ranks[rank].moving for rank in lead.ranks if rank in facts.ranks):
        return slows
    if lead.cause is Cause.SINGLE_RANK_WORK:  # which says it already
        return slows
    return _because(slows, say("{ranks:who} progressed between two samples", ranks=lead.ranks))


def _because(verdict: Verdict, reason: Text) -> Verdict:
    """``verdict``, whose first finding says why it is a hang or slow after what it rests on."""
    lead, *others = verdict.findings
    return replace(verdict, findings=(replace(lead, because=(*lead.because[:1], reason, *lead.because[1:])), *others))


def _with_work(verdict: Verdict, severity: Severity) -> Verdict:
    work = causes_that("work")
    findings = (
        replace(f, severity=severity) if f.cause in work and f.severity is not Severity.NOTE else f
        for f in verdict.findings
    )
    return replace(verdict, findings=tuple(findings))


def _planned(verdict: Verdict) -> Verdict:
    """Nothing is wrong as long as the work ends as planned, where nothing else is wrong and all was seen."""
    wrong = any(finding.severity is not Severity.NOTE for finding in verdict.findings)
    if wrong or verdict.ranks_missing or verdict.unread:
        return verdict
    ranks = verdict.findings[0].ranks
    planned = say("{ranks:who} {ranks:is|are} doing planned work, by the program's own marks", ranks=ranks)
    return replace(verdict, health=Health(Certainty.LIKELY, (planned,)))
