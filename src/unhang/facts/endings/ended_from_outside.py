"""Jobs and ranks that somebody else ended: their launcher, a scheduler, a person."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from unhang.evidence.items import LastLine, LogEvent, PythonTraceback, StackDump, ThreadStack
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
    """The other ranks, where the size of the job is known, or how many processes its one launcher ended."""
    never_came: bool = False
    """Each rank prints a line as it enters the call: those that printed none had not come."""
    silent_s: float | None = None
    """How long nothing had been printed before the launcher was told to end; None where no line tells."""

    @property
    def all_joined(self) -> bool:
        """Every rank of a job whose size is known had come."""
        return len(self.joined) > 1 and not self.missing


def is_interrupt(event: LogEvent) -> bool:
    """The launcher says that it got Ctrl-C."""
    return event.kind in _TOLD_TO_END and str(event.values.get("signal")) in _INTERRUPT


@dataclass(frozen=True, slots=True)
class EndedFromOutside:
    """Somebody ended a job in which no rank had failed by itself or given up waiting. ``last``: the line above in that
    log, where it was kept; ``silent_s``: so long before, where both have a time."""

    events: tuple[LogEvent, ...]
    last: Evidence | None
    silent_s: float | None
    sampled: bool = False
    """Somebody had looked at stacks of its processes, which stood still."""

    @property
    def may_have_been_stuck(self) -> bool:
        """A launcher was told to end by what a person sends who gives up waiting, and nobody had spoken just before; or
        somebody cancelled it after looking at its stacks."""
        end = self.events[0]
        cancelled = self.sampled and end.kind == "slurm.cancel" and not end.values.get("reason")
        return cancelled or (_is_by_hand(end) and (self.silent_s is None or self.silent_s >= SILENT_S))


@once
def ended_from_outside(facts: Facts) -> EndedFromOutside | None:
    """None also where ranks had waited in vain, or a library had reported a failure before the signal: the end follows
    from that."""
    events = first_attempt(facts.events_of("slurm.cancel", "slurm.nodefail", "k8s.evicted", *_TOLD_TO_END))
    if not events or primary_crashes(facts) or logged_waits(facts) is not None:
        return None
    end = events[0]
    before = [event for event in events_stating(facts, *_FAILED_FIRST) if event.source.path == end.source.path]
    if _is_by_hand(end) and any(_place(event) < _place(end) for event in before):
        return None
    number = end.source.line or 0
    logs = [log for log in facts.logs if log.source.path == end.source.path]
    lines: list[LastLine | LogEvent] = [line for log in logs for line in log.said]
    lines += [line for log in logs for line in log.events]
    # of a flood only the first lines are kept; a blank one is not
    above = [line for line in lines if 0 < number - (line.source.line or 0) <= 2]
    sampled = bool(facts.unattributed_stacks) or any(known.stack is not None for known in facts.ranks.values())
    if not above:
        return EndedFromOutside(events, None, None, sampled)
    last = max(above, key=lambda line: line.source.line or 0)
    silent_s = end.time_s - last.time_s if end.time_s is not None and last.time_s is not None else None
    return EndedFromOutside(events, Evidence(last.source, shortened(last.text), last.rank), silent_s, sampled)


def _is_by_hand(event: LogEvent) -> bool:
    return event.kind in _TOLD_TO_END and str(event.values.get("signal")) in _BY_HAND


@once
def ended_by_user(facts: Facts) -> EndedByUser | None:
    """None where nobody ended it by hand, or a rank had failed or given up before."""
    told = [event for event in first_attempt(facts.events_of(*_TOLD_TO_END)) if _is_by_hand(event)]
    raised = [t for t in facts.tracebacks if t.exception.endswith("KeyboardInterrupt") and not t.chained]
    failed = any(
        crash.exception or crash.exit_code is not None for crash in primary_crashes(facts)
    )  # a torn one: nothing
    if not (told or raised) or failed or logged_waits(facts) is not None:
        return None
    evidence = (*map(quote_event, told[:1]), *map(_quoted, raised[:2]))
    came = _calls_entered(facts, raised)
    size = facts.world_size or _processes_ended(facts)
    missing = tuple(rank for rank in range(size) if rank not in came)
    unsized = facts.world_size is None and (not missing or max(came, default=0) >= size)
    if _made_steps(facts) or len(set(came.values())) != 1 or unsized:
        return EndedByUser(evidence, (), "", ())
    never_came = bool(missing) and len(missing) < len(came) and not any(t.rank in came for t in raised)
    outside = ended_from_outside(facts)
    silent_s = outside.silent_s if outside is not None else None
    return EndedByUser(evidence, tuple(sorted(came)), next(iter(came.values())), missing, never_came, silent_s)


def _processes_ended(facts: Facts) -> int:
    """How many processes torchrun told to end; 0 where several did so."""
    ended = first_attempt(facts.events_of("te.closing"))
    alone = len({event.source.path for event in ended}) == 1
    return len({event.values.get("pid") for event in ended}) if alone else 0


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
