"""How certain a finding is: what it rests on, and what caps that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unhang.causes.detector import Detector, Signal
from unhang.facts.logs.event_timing import is_preparing
from unhang.facts.model import Facts
from unhang.findings import Cause, Certainty, Finding, NotChecked, Severity, Unread, Verdict
from unhang.knowledge.reasoning_rows import causes_that, grade_rows
from unhang.sentences import say

CERTAINTY = {grade: (row.whole, row.not_whole) for grade, row in grade_rows().items()}
"""Certainty where the signal is whole, and where it is not."""


def grade_signal(signal: Signal, detector: Detector) -> Finding:
    """What ``detector`` signals as a finding, with the certainty its grade allows."""
    whole, not_whole = CERTAINTY[signal.grade]
    return Finding(
        cause=signal.cause or detector.cause,
        certainty=whole if signal.whole else not_whole,
        summary=signal.summary,
        grade=signal.grade,
        detector=detector.name,
        **signal.parts,
    )


def names_cause(finding: Finding) -> bool:
    """It says why, and that is *likely* at least."""
    return finding.cause is not Cause.UNKNOWN and finding.certainty is not Certainty.POSSIBLE


def is_guess(finding: Finding) -> bool:
    """What nothing explains, and no more than *possible*."""
    return finding.cause is Cause.UNKNOWN and finding.certainty is Certainty.POSSIBLE


_MADE = ("n.init_complete", "store.barrier_ok")


def cap_misplaced_findings(facts: Facts, verdict: Verdict) -> Verdict:
    """Caps at *possible* a cause of the start that stands after steps, and an end that other failures preceded: whoever
    found them found a line (a rendezvous that cannot be shut down after a process died), not what stops the job.
    """
    begins, made = _first_steps(facts), _made(facts)
    placed = (_placed(facts, f, begins, made) if f.severity is Severity.STOPS else f for f in verdict.findings)
    return replace(verdict, findings=tuple(placed))


def _placed(facts: Facts, finding: Finding, begins: dict[str, int], made: dict[str, int]) -> Finding:
    if finding.cause in causes_that("at-start") and _misplaced(finding, begins, made):
        because = say("steps had been made before it, or communicators after it: it may not be what stops the job")
    elif finding.cause is Cause.RANK_CRASHED and _is_after_first_failure(facts, finding):
        because = say("other processes had failed or given up before: this end may follow from theirs")
    else:
        return finding
    certainty = finding.certainty.capped(Certainty.POSSIBLE)
    return replace(finding, certainty=certainty, because=(*finding.because, because))


def _is_after_first_failure(facts: Facts, finding: Finding) -> bool:
    """Only how a process ended is known, told behind the first failure of the log; and no exception of its own."""
    if finding.where is not None or any(t.rank in finding.ranks or t.rank is None for t in facts.tracebacks):
        return False
    failed = _first_failures(facts, [item.text for item in finding.evidence])
    places = [(item.source.path, item.source.line) for item in finding.evidence]
    return bool(places) and all(line is not None and failed.get(path, line) < line for path, line in places)


def _first_failures(facts: Facts, quoted: list[str]) -> dict[str, int]:
    """By log, the first line at which a process raised an exception or gave up waiting; not one that is ``quoted``."""
    others = (t for t in facts.tracebacks if not any(t.message and t.message in text for text in quoted))
    lines = [(t.source.line or 0, t.source.path) for t in others]
    lines += [(event.source.line or 0, event.source.path) for event in facts.events_of("wd.timeout", "gloo.to")]
    return {path: line for line, path in sorted(lines, reverse=True)}


def _first_steps(facts: Facts) -> dict[str, int]:
    """By log, the line at which at least two steps had been counted."""
    runs = [(log.source.path, run) for log in facts.logs for run in log.progress if not is_preparing(run)]
    ran = sorted((run.last_line, path) for path, run in runs if run.last_step > run.first_step)
    return {path: line for line, path in reversed(ran)}


def _made(facts: Facts) -> dict[str, int]:
    """By log, the last line at which a communicator had been made."""
    lines = sorted((event.source.line or 0, event.source.path) for event in facts.events_of(*_MADE))
    return {path: line for line, path in lines}


def _misplaced(finding: Finding, begins: dict[str, int], made: dict[str, int]) -> bool:
    places = [(item.source.path, item.source.line) for item in finding.evidence]
    return bool(places) and all(
        line is not None and (begins.get(path, line) < line or line < made.get(path, 0)) for path, line in places
    )


# The README's table *run here / from code only* says which; a backend leaves this list when the lab has run on it.
_FROM_CODE_ONLY = ("nccl", "nccl2", "ncclx", "rccl", "rcclx", "xccl", "hccl", "mccl")
# Kinds of log lines of NCCL itself and of torch's NCCL process group (knowledge/messages).
_NCCL_LINES = ("n.", "wd.", "hb.", "dump.", "tc.", "ncclerr", "uid.")


def cap_unverified_claims(facts: Facts, verdict: Verdict) -> Verdict:
    """Caps at *likely* what rests on records or lines of NCCL and its kin: their behaviour was read from code and
    recorded dumps, and on a GPU little of it was run (``docs/nccl-on-a-gpu.md``).
    """
    everything = _rests_on_records(facts)
    lines = {(e.source.path, e.source.line) for e in facts.events if e.kind.startswith(_NCCL_LINES)}
    capped = (
        replace(f, certainty=f.certainty.capped(Certainty.LIKELY))
        if f.cause not in causes_that("seen-by-system")
        and (everything or any((e.source.path, e.source.line) in lines for e in f.evidence))
        else f
        for f in verdict.findings
    )
    return replace(verdict, findings=tuple(capped))


def _rests_on_records(facts: Facts) -> bool:
    backends = {r.recording.backend for r in facts.ranks.values() if r.recording is not None}
    # without any dump too: what waiting in its collectives looks like from outside was not seen either
    backends |= {manifest.backend for manifest in facts.manifests}
    if backends & set(_FROM_CODE_ONLY):
        return True
    return any(p.source_kind == "log" for g in facts.groups.values() for p in g.progress.values())


def cap_by_gaps(_: Facts, verdict: Verdict) -> Verdict:
    """Caps every certainty by what could not be looked at."""
    limit = certainty_limit(verdict.not_checked, verdict.unread)
    return replace(verdict, findings=tuple(replace(f, certainty=f.certainty.capped(limit)) for f in verdict.findings))


def certainty_limit(not_checked: Sequence[NotChecked], unread: Sequence[Unread] = ()) -> Certainty:
    """The most certain that anything may be, given what could not be looked at."""
    lost = any(item.failed or item.lost or item.rank is not None for item in unread)
    limit = Certainty.LIKELY if lost else Certainty.CERTAIN
    for gap in not_checked:
        if gap.caps is not None:
            limit = limit.capped(gap.caps)
    return limit
