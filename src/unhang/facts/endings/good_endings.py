"""What is told of the end: that the whole job ended well, that single ranks did, and up to where in each log; and that
it is over, however it ended.

A statement counts only where nothing was started or counted after it, where no other one tells of a bad end, and where
nobody sampled the processes themselves: a sample says more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from unhang.evidence.items import LogEnding, LogEvent, LogReading, Progress, PythonTraceback
from unhang.evidence.logs.lines.prefixes import is_cpp_error
from unhang.facts.logs.event_timing import is_preparing
from unhang.facts.logs.log_statements import first_attempt, quote_events
from unhang.facts.model import Facts, Stall, once
from unhang.findings import Evidence
from unhang.knowledge.thresholds import threshold

KILLED_AFTER_S = threshold("good_endings.killed_after_s")


@dataclass(frozen=True, slots=True)
class StatedEndings:
    """What logs state about successful ends. ``whole``: the line about all ranks. ``ranks``: lines about single ones.
    ``last``: the last such line of each log; what stands before it did not stop the one that wrote it."""

    whole: LogEnding | None = None
    ranks: Mapping[int, LogEnding] = field(default_factory=dict)
    last: Mapping[str, LogEnding] = field(default_factory=dict)


@once
def good_endings(facts: Facts) -> StatedEndings:
    """What is stated; nothing where a line contradicts it."""
    if facts.manifests or any(r.stack is not None or r.recording is not None for r in facts.ranks.values()):
        return StatedEndings()
    told = {log.source.path: (*log.endings, *_destroyed(facts, log)) for log in facts.logs}
    attempts = [{*(e.attempt for e in told[log.source.path]), *(p.attempt for p in log.progress)} for log in facts.logs]
    attempt = max(set().union(*attempts), default=0)
    if any(is_uncaught(traceback) and traceback.attempt >= attempt for traceback in facts.tracebacks):
        return StatedEndings()
    latest = [(log, e) for log in facts.logs for e in _last_of_each(told[log.source.path]) if e.attempt == attempt]
    if not all(e.well for _, e in latest):
        return StatedEndings()
    final = [(log, e) for log, e in latest if _line(e) >= _last_activity_line(log, e)]
    return StatedEndings(
        _whole_job_ending(facts, final), _by_rank(facts, final), {log.source.path: e for log, e in final}
    )


def last_attempt(facts: Facts) -> int:
    """The attempt that ended well on all ranks, so that it outlived those before it; 0 where nobody says so, or where
    torch printed an error that is not known."""
    whole = good_endings(facts).whole
    unknown = any(is_cpp_error(line.text) for log in facts.logs for line in log.unrecognized_failures)
    return 0 if whole is None or unknown else whole.attempt


def _destroyed(facts: Facts, log: LogReading) -> Iterable[LogEnding]:
    """Ranks of which NCCL says that the communicator of the whole job is destroyed."""
    for event in log.events:
        told = event.values
        if event.kind == "n.end" and told["how"] == "Destroy" and told["comm_size"] == facts.world_size:
            source, ranks = event.source, (told["comm_rank"],)
            yield LogEnding("group", ranks=ranks, source=source, text=event.text, attempt=event.attempt)


def _last_of_each(endings: Iterable[LogEnding]) -> Iterable[LogEnding]:
    """What was asked for again and again (``kubectl get``, ``sacct``) counts as it was at last."""
    named = {(ending.who, ending.name): ending for ending in endings if ending.name}
    return (ending for ending in endings if not ending.name or named[ending.who, ending.name] is ending)


def is_uncaught(traceback: PythonTraceback) -> bool:
    """It has the frames of the whole program: nobody caught it."""
    return bool(traceback.frames) and traceback.frames[-1].function == "<module>"


def _last_activity_line(log: LogReading, ending: LogEnding) -> int:
    """The last line in which something starts, or the one whose end this is still counts."""
    own = (run for run in log.progress if not ending.ranks or run.rank in (None, *ending.ranks))
    counts = (run.last_line for run in own if not ending.words or _goes_on(run))
    return max(log.started_line, *counts, 0)


def _goes_on(run: Progress) -> bool:
    """It counts: summaries name a step or epoch once, and a full bar is drawn anew when its program closes it."""
    return run.last_step > run.first_step and not (run.total and run.last_step >= run.total)


def _line(ending: LogEnding) -> int:
    return ending.source.line or 0


def _whole_job_ending(facts: Facts, final: list[tuple[LogReading, LogEnding]]) -> LogEnding | None:
    """The line from which on all ranks are told of."""
    size = facts.world_size or 0
    by_launch: dict[str, tuple[LogEnding, int]] = {}
    processes: set[str] = set()
    for log, ending in final:
        if ending.who == "job" or (ending.who == "all" and not ending.words and _was_trained(log, ending)):
            return ending
        if ending.who == "process":
            processes.add(ending.name)
            if size and len(processes) >= size:
                return ending
        if ending.who == "launch":
            by_launch[log.source.path] = ending, _started_by(log, ending)
            if ending.alone and ending.here is None:
                return ending
            of = max([size, *(e.size or 0 for e, _ in by_launch.values())])
            if 0 < of <= sum(count for _, count in by_launch.values()):
                return ending
    return None


def _started_by(log: LogReading, ending: LogEnding) -> int:
    """How many ranks a launch had: as it says, or those that were heard in its log."""
    return ending.here if ending.here is not None else len(log.ranks)


def _was_trained(log: LogReading, ending: LogEnding) -> bool:
    """Steps were counted, or more than words told of an end, before this line: it is nothing of the start."""
    counted = any(run.last_line < _line(ending) and not is_preparing(run) for run in log.progress)
    return counted or any(_line(other) < _line(ending) and not other.words for other in log.endings)


def _by_rank(facts: Facts, final: Iterable[tuple[LogReading, LogEnding]]) -> dict[int, LogEnding]:
    """Ranks whose end is told, by a launcher or as the last of their own words: what it saw counts, before words."""
    found: dict[int, LogEnding] = {}
    for log, ending in sorted(final, key=lambda told: not told[1].words):
        exited = ending.who == "rank" and not ending.words
        trained = exited or _was_trained(log, ending) or _trained_elsewhere(facts, log)
        if ending.who in ("rank", "group") and trained:
            found.update((rank, ending) for rank in ending.ranks if not ending.words or _is_last(facts, rank, ending))
    return found


def _trained_elsewhere(facts: Facts, log: LogReading) -> bool:
    return any(not is_preparing(run) for other in facts.logs if other is not log for run in other.progress)


def _is_last(facts: Facts, rank: int, ending: LogEnding) -> bool:
    known = facts.ranks.get(rank)
    last = known.last_line if known is not None else None
    return last is None or last.source.path != ending.source.path or (last.source.line or 0) <= _line(ending)


_OF_LAUNCHERS = ("te.failed", "te.childfailed", "slurm.", "k8s.", "mpi.", "pals.", "ds.", "srun.", "py.died")
_ENDS = (*_OF_LAUNCHERS, "wd.down", "wd.term")
"""What launchers, schedulers and watchdogs print when they end a process."""


def ran_again(facts: Facts, event: LogEvent) -> bool:
    """Steps were counted, by their times, long after whoever ended the processes had killed them."""
    killed_s = math.inf if event.time_s is None else event.time_s + KILLED_AFTER_S
    runs = (run for log in facts.logs for run in log.progress if run.source.path == event.source.path)
    return any((run.last_time_s or 0.0) > killed_s for run in runs if run.last_line > (event.source.line or 0))


@once
def is_job_over(facts: Facts) -> bool | None:
    """True where processes, their launcher or a scheduler tell of the end, False where somebody looked at living ranks.
    None: a log that says neither may still grow.
    """
    if facts.manifests:
        if any(manifest.live for manifest in facts.manifests):
            return False
        processes = [process for manifest in facts.manifests for process in manifest.processes]
        return True if processes and all(process.exit_code is not None for process in processes) else None
    ended = [
        *(exit_.attempt for exit_ in facts.exits),
        *(event.attempt for event in facts.events_of(*_ENDS) if not ran_again(facts, event)),
    ]
    steps = (progress.attempt for log in facts.logs for progress in log.progress)
    return True if ended and max(ended) >= max(steps, default=0) else None


# ---------------------------------------------------------------------------------------------------
# while others wait


@dataclass(frozen=True, slots=True)
class LeftEarly:
    """The program of ``stall.laggards`` had ended, without an exception, when the others waited. ``stated``: it printed
    that it ends; else the launcher had no process of theirs left to end."""

    stall: Stall
    stated: bool
    evidence: tuple[Evidence, ...]


_AT_EXIT = ("pg.destroy", "pg.destroy24")


def events_of_processes(facts: Facts) -> tuple[LogEvent, ...]:
    """Lines of torchrun about the processes that it ended or that failed, at the end of an attempt: all it had."""
    return first_attempt(facts.events_of("te.closing", "te.failed"))


def left_early(facts: Facts) -> Iterator[LeftEarly]:
    """As lines tell; where processes were sampled, these say more."""
    for stall in facts.stalls if not facts.manifests else ():
        gone = set(stall.laggards)
        if any(t.rank in gone for t in facts.tracebacks) or any(facts.ranks[r].exit is not None for r in gone):
            continue
        said = [event for event in facts.events_of(*_AT_EXIT) if event.rank in gone]
        ended = [event for event in events_of_processes(facts) if _heard(facts, event, gone)]
        left = {event.values.get("pid") for event in ended}
        if gone == {event.rank for event in said} and not gone & set(stall.waiters):
            yield LeftEarly(stall, True, quote_events(said))
        elif (
            any(e.kind == "te.closing" for e in ended)
            and len(left) == len(stall.waiters)
            and {*gone, *stall.waiters} == set(facts.ranks)
        ):
            yield LeftEarly(stall, False, quote_events(ended))


def _heard(facts: Facts, event: LogEvent, ranks: set[int]) -> bool:
    """These ranks speak in the log of ``event``, so that its launcher had started them."""
    return any(log.source.path == event.source.path and ranks <= set(log.ranks) for log in facts.logs)
