"""A cause that belongs to the start explains nothing that stands elsewhere: after steps, or before the start was done.

A rendezvous that cannot be shut down after a process died, a port of a helper that was taken before communicators were
made: whoever found them found a line, not what stops the job.
"""

from __future__ import annotations

from dataclasses import replace

from unhang.facts.logs.event_timing import is_preparing
from unhang.facts.model import Facts
from unhang.findings import Cause, Certainty, Finding, Severity
from unhang.sentences import say

STARTUP_CAUSES = frozenset((Cause.RENDEZVOUS, Cause.NETWORK_CONFIG, Cause.DEVICE_MAPPING))
_MADE = ("n.init_complete", "store.barrier_ok")


def cap_misplaced_findings(facts: Facts, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """``findings``, those of the start that stand in another place no more than *possible*."""
    begins, made = _first_steps(facts), _made(facts)
    return tuple(_placed(facts, f, begins, made) if f.severity is Severity.STOPS else f for f in findings)


def _placed(facts: Facts, finding: Finding, begins: dict[str, int], made: dict[str, int]) -> Finding:
    if finding.cause in STARTUP_CAUSES and _misplaced(finding, begins, made):
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
