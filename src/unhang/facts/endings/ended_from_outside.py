"""Jobs and ranks that somebody else ended: their launcher, a scheduler, a person."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from unhang.evidence.items import LogEvent, PythonTraceback, StackDump, ThreadStack
from unhang.facts.endings.crashes import primary_crashes
from unhang.facts.logs.event_timing import is_preparing
from unhang.facts.logs.log_statements import events_stating, first_attempt, quote_event
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.model import Facts, RankFacts, once
from unhang.facts.stacks.activity import activity_of
from unhang.findings import Evidence, Source
from unhang.knowledge.thresholds import threshold
from unhang.sentences import shortened

_TOLD_TO_END = ("te.signal", "te.sigexc")
_FAILED = "te.failed"
_SENT = {-signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGQUIT, -signal.SIGKILL}


def mark_ended_by_launcher(ranks: Mapping[int, RankFacts], events: Sequence[LogEvent]) -> dict[int, RankFacts]:
    """Exits by a signal are the launcher's doing in attempts in which it was told to end and had seen nobody fail."""
    closed = _attempts_told_to_end(events)
    return {rank: _marked(known, closed) for rank, known in ranks.items()}


def _marked(known: RankFacts, closed: set[int]) -> RankFacts:
    exit_ = known.exit
    if exit_ is None or exit_.attempt not in closed or exit_.exit_code not in _SENT:
        return known
    return replace(known, exit=replace(exit_, terminated_by_launcher=True))


def _attempts_told_to_end(events: Iterable[LogEvent]) -> set[int]:
    failed: set[int] = set()
    closed: set[int] = set()
    for event in sorted(events, key=_place):
        if event.kind == _FAILED:
            failed.add(event.attempt)
        elif event.kind in _TOLD_TO_END and event.attempt not in failed:
            closed.add(event.attempt)
    return closed


def _place(event: LogEvent) -> tuple[int, str, int]:
    return (event.attempt, event.source.path, event.source.line or 0)


SILENT_S = threshold("ended_from_outside.silent")
_FAILED_FIRST = ("async-error", "aborted", "peer-gone", "stuck", "gil")
_BY_HAND = ("2", "15", "SIGINT", "SIGTERM", "Signals.SIGINT", "Signals.SIGTERM")
_INTERRUPT = ("2", "SIGINT", "Signals.SIGINT")
_FIRST = "barrier"
"""Torch guesses a device where a rank's first collective is a barrier."""


@dataclass(frozen=True, slots=True)
class EndedByUser:
    """``joined``: ranks whose own lines tell that they had come to ``operation``, the job's first collective; empty
    where it had made steps, or they stood in different calls."""

    evidence: tuple[Evidence, ...]
    joined: tuple[int, ...]
    operation: str
    missing: tuple[int, ...]
    """The other ranks, where the size of the job is known."""

    @property
    def all_joined(self) -> bool:
        """Every rank of a job whose size is known had come."""
        return len(self.joined) > 1 and not self.missing


def is_interrupt(event: LogEvent) -> bool:
    """The launcher says that it got Ctrl-C."""
    return event.kind in ("te.signal", "te.sigexc") and str(event.values.get("signal")) in _INTERRUPT


@dataclass(frozen=True, slots=True)
class LastWord:
    """The last that was printed before somebody ended the job. ``silent_s``: None where its line has no time."""

    evidence: Evidence
    silent_s: float | None

    @property
    def spoke_to_the_end(self) -> bool:
        """So shortly before, that the job was running."""
        return self.silent_s is not None and self.silent_s < SILENT_S


def may_have_been_stuck(event: LogEvent) -> bool:
    """A launcher was told to end by what a person sends who gives up waiting."""
    return event.kind in _TOLD_TO_END and str(event.values.get("signal")) in _BY_HAND


def last_word_before(facts: Facts, event: LogEvent) -> LastWord | None:
    """The line above it in its log; None where that was not kept."""
    log = next((log for log in facts.logs if log.source.path == event.source.path), None)
    end = event.source.line or 0
    told = [(e.source.line or 0, e.time_s, e.text, e.rank) for e in log.events] if log else []
    told += [(e.source.line or 0, e.time_s, e.text, e.rank) for e in log.said] if log else []
    told += [(run.last_line, run.last_time_s, run.last_text, run.rank) for run in log.progress] if log else []
    line, time_s, text, rank = max(
        (one for one in told if one[0] < end), key=itemgetter(0), default=(0, None, "", None)
    )
    if not line or end - line > 2:  # of a flood only the first lines are kept; a blank one is not
        return None
    silent_s = event.time_s - time_s if event.time_s is not None and time_s is not None else None
    return LastWord(Evidence(Source(event.source.path, line), shortened(text), rank), silent_s)


def failed_before(facts: Facts, event: LogEvent) -> bool:
    """A library had reported in the same log that a partner was gone, a call had failed, or its watchdog was stuck."""
    return any(
        e.source.path == event.source.path and (e.source.line or 0) < (event.source.line or 0)
        for e in events_stating(facts, *_FAILED_FIRST)
    )


@once
def ended_by_user(facts: Facts) -> EndedByUser | None:
    """None where nobody ended it by hand, or a rank had failed or given up before."""
    told = [event for event in first_attempt(facts.events_of("te.signal", "te.sigexc")) if is_interrupt(event)]
    raised = [t for t in facts.tracebacks if t.exception.endswith("KeyboardInterrupt") and not t.chained]
    failed = any(
        crash.exception or crash.exit_code is not None for crash in primary_crashes(facts)
    )  # a torn one: nothing
    if not (told or raised) or failed or logged_waits(facts) is not None:
        return None
    evidence = (*map(quote_event, told[:1]), *map(_quoted, raised[:2]))
    came = _calls_entered(facts, raised)
    if _made_steps(facts) or len(set(came.values())) != 1 or facts.world_size is None:
        return EndedByUser(evidence, (), "", ())
    missing = tuple(rank for rank in range(facts.world_size) if rank not in came)
    return EndedByUser(evidence, tuple(sorted(came)), next(iter(came.values())), missing)


def _calls_entered(facts: Facts, raised: list[PythonTraceback]) -> dict[int, str]:
    """The call each rank stood in, by its own lines; what was interrupted elsewhere stood elsewhere."""
    came = {event.rank: _FIRST for event in events_stating(facts, "device-guess") if event.rank is not None}
    for traceback in raised:
        if traceback.rank is not None:
            came[traceback.rank] = _call_of(traceback)
    return came


def _call_of(traceback: PythonTraceback) -> str:
    thread = ThreadStack(traceback.thread or "MainThread", "", traceback.frames, line=traceback.source.line)
    stood = activity_of(StackDump(traceback.source, traceback.rank, None, (thread,), "traceback"), {})[0]
    return (stood.operation or stood.what) if stood is not None else ""


def _made_steps(facts: Facts) -> bool:
    return any(run.last_step > 0 and not is_preparing(run) for log in facts.logs for run in log.progress)


def _quoted(traceback: PythonTraceback) -> Evidence:
    line = traceback.raised_line or traceback.source.line
    text = shortened(traceback.message.strip() or traceback.exception)
    return Evidence(Source(traceback.source.path, line), text, traceback.rank)
