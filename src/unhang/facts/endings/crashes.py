"""Which process failed by itself, and which only fell with it.

When one rank dies, its peers raise too: connections close, timeouts fire, the launcher sends SIGTERM. Those are
echoes. What is left, first in time, is the crash.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace

from unhang.evidence.items import LogEvent, ProcessExit, PythonTraceback
from unhang.facts.endings.first_timeouts import FirstTimeouts, TimeoutOrder
from unhang.facts.endings.guard_errors import guard_errors, parse_guard_error, split_exception
from unhang.facts.endings.traceback_echoes import (
    _ECHO_TEXT,
    _HOST_OOM,
    asked_another_world,
    is_echo,
    is_gpu_out_of_memory,
    raised_by_launcher,
    says_wait,
)
from unhang.facts.evidence_quotes import quote_traceback
from unhang.facts.model import Facts, RankFacts, once
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.findings import Evidence, Where
from unhang.knowledge.failure_language import VAGUE, find_failure_statement
from unhang.late_pattern import late_pattern

# The last line of a traceback, at the start of a line.
_LAST_LINE = late_pattern(r"\s*(?:\[rank\d+\]:? ?)?(?:[A-Za-z_]\w*\.)*(?:\w*(?:Error|Exception)|(?<=errors\.)\w+): ")
_WITH_LAST_LINES = ("py.error", "gloo.to", "gloo.closed", "gloo.reset", "store.eof", "store.reset", "store.pipe")

# Exceptions that state another detector's cause in so many words: DDP's unused parameters.
_NAMES_ITS_CAUSE = late_pattern(r"Expected to have finished reduction in the prior iteration")

# Signals that peers, watchdogs and launchers send: by themselves they do not tell who failed.
_VICTIM_SIGNALS = {signal.SIGTERM, signal.SIGABRT, signal.SIGINT, signal.SIGHUP}
# So far behind an exception a library still explains it.
_LINES_BELOW = 3
# Above this a shell says which signal it was.
_PLAIN_CODES = 128
# Of these, what somebody sends to one process on purpose.
_SENT_BY_HAND = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


@dataclass(frozen=True, slots=True)
class Crash:
    """One process' own failure."""

    rank: int | None
    exception: str
    """Exception type, or the signal's name, or empty for a plain exit code."""
    message: str
    evidence: Evidence
    attempt: int = 0
    where: Where | None = None
    time_s: float | None = None
    thread: str = ""
    """Thread that raised it, when not the main thread."""
    signal: int | None = None
    exit_code: int | None = None
    when: TimeoutOrder = TimeoutOrder.BEFORE
    """Before or after the first timeout, or nothing tells."""

    @property
    def is_gpu_out_of_memory(self) -> bool:
        """Accelerator memory ran out."""
        return is_gpu_out_of_memory(self.exception, self.message)

    @property
    def is_host_memory(self) -> bool:
        """Memory of the host ran out."""
        return bool(_HOST_OOM.search(f"{self.exception} {self.message}"))


def crashes_after_timeout(facts: Facts) -> tuple[Crash, ...]:
    """Failures of processes that were there when the first limit passed: nobody had waited because of them."""
    return _sorted(crash for crash in _failed(facts) if crash.when is TimeoutOrder.AFTER)


@once
def primary_crashes(facts: Facts) -> tuple[Crash, ...]:
    """Failures that are nobody's echo, first attempt first, then by time."""
    return _sorted(crash for crash in _failed(facts) if crash.when is not TimeoutOrder.AFTER)


def _sorted(crashes: Iterable[Crash]) -> tuple[Crash, ...]:
    return tuple(sorted(_once_per_rank(crashes), key=_order))


@once
def _failed(facts: Facts) -> list[Crash]:
    lived = [was_handled(t, facts) for t in facts.tracebacks]
    handled = {(t.exception, t.frames) for t, on in zip(facts.tracebacks, lived, strict=True) if on}
    raised = [
        t
        for t, on in zip(facts.tracebacks, lived, strict=True)
        if not on and not _is_handled_repeatedly(t, handled, facts)
    ]
    return [*_from_tracebacks(raised, facts), *_crashes_from_guards(facts), *_from_exits(facts)]


def was_handled(traceback: PythonTraceback, facts: Facts) -> bool:
    """The exception of its main thread was handled: the rank is in a collective, or goes on stepping. Of one in an
    output of all: every rank lives, and stands in its program."""
    if traceback.rank is None and facts.manifests and len(facts.ranks) == facts.world_size:
        stand = (known.alive and known.activity is not None and known.activity.where for known in facts.ranks.values())
        return traceback.thread in ("", "MainThread") and all(stand)
    rank = facts.ranks.get(traceback.rank) if traceback.rank is not None else None
    if rank is None or traceback.thread not in ("", "MainThread"):
        return False
    if not rank.alive:
        return False
    activity = rank.activity
    if activity is not None and activity.operation is not None and activity.where is not None:
        return True
    return any(
        p.source.path == traceback.source.path
        and p.attempt == traceback.attempt
        and p.last_line > (traceback.source.line or 0)
        for p in rank.progress
    )


def _is_handled_repeatedly(traceback: PythonTraceback, handled: Container[tuple[object, ...]], facts: Facts) -> bool:
    """The same exception came up the same frames before and its rank went on: what was caught there then is caught
    there again, and nothing was left to say that this time. One that nobody catches has the frames of the whole
    program above it; an exit tells more than any of this."""
    rank = facts.ranks.get(traceback.rank) if traceback.rank is not None else None
    ended = rank is not None and not rank.alive
    return not ended and bool(traceback.frames) and (traceback.exception, traceback.frames) in handled


@once
def first_timeouts(facts: Facts) -> FirstTimeouts:
    """When ranks first gave up waiting."""
    return FirstTimeouts(facts.logs)


def orphaned_exception_lines(facts: Facts) -> tuple[LogEvent, ...]:
    """Last lines of tracebacks whose other lines the log does not have: it was cut, or only a part was pasted."""
    whole = {t.rank for t in facts.tracebacks if not raised_by_launcher(t)}
    ends = {(t.source.path, t.raised_line) for t in facts.tracebacks}
    events = (event for kind in _WITH_LAST_LINES for event in facts.events_of(kind))
    return tuple(
        event
        for event in events
        if event.rank not in whole
        and (event.source.path, event.source.line) not in ends
        and _LAST_LINE.match(event.text)
    )


def is_collateral_exit(rank: RankFacts) -> bool:
    """The rank ended because of others: ended by the launcher, or all it raised says that a peer is gone."""
    exit_ = rank.exit
    if exit_ is None or exit_.exit_code in (None, 0):
        return False
    if exit_.terminated_by_launcher:
        return True
    # An interpreter that goes down with a lost connection may well crash in native code on its way: the exception
    # came first. SIGKILL comes from outside and says nothing of that.
    return exit_.exit_code != -signal.SIGKILL and bool(rank.tracebacks) and all(is_echo(t) for t in rank.tracebacks)


def ended_after_timeouts(rank: RankFacts, timeouts: FirstTimeouts) -> bool:
    """Ranks had waited in vain when it ended, and it told of no failure of its own before."""
    if rank.exit is None or timeouts.classify_exit(rank.exit, rank.rank) is not TimeoutOrder.AFTER:
        return False
    return all(is_echo(t) or timeouts.classify_exception(t) is TimeoutOrder.AFTER for t in rank.tracebacks)


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9; ``signal 99`` for numbers without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _from_tracebacks(tracebacks: Iterable[PythonTraceback], facts: Facts) -> list[Crash]:
    found = []
    for traceback in tracebacks:
        if is_echo(traceback) or asked_another_world(traceback, facts.beside) or _waited_below(traceback, facts):
            continue
        if traceback.exception.endswith(("KeyboardInterrupt", "SystemExit")):
            continue
        if traceback.chained or _NAMES_ITS_CAUSE.search(traceback.message):
            continue
        found.append(
            Crash(
                rank=traceback.rank,
                exception=traceback.exception,
                message=traceback.message,
                evidence=quote_traceback(traceback),
                attempt=traceback.attempt,
                where=first_user_frame(traceback.frames),
                time_s=traceback.time_s if traceback.time_s is not None else _end_of(traceback, facts),
                thread=traceback.thread if traceback.thread not in ("", "MainThread") else "",
                when=first_timeouts(facts).classify_exception(traceback, _end_of(traceback, facts)),
            )
        )
    return found


def _waited_below(traceback: PythonTraceback, facts: Facts) -> bool:
    """The error says only that something below it failed, and lines right behind it that this was a wait."""
    said = find_failure_statement(f"{traceback.exception}: {traceback.message}".replace("\n", " "), raised=True)
    if said is None or said.row.strength != VAGUE:
        return False
    last = traceback.raised_line or traceback.source.line or 0
    behind = (e for e in facts.events if e.source.path == traceback.source.path and e.rank == traceback.rank)
    return any(0 <= (event.source.line or 0) - last <= _LINES_BELOW and says_wait(event.kind) for event in behind)


def _crashes_from_guards(facts: Facts) -> list[Crash]:
    """Failures of ranks whose own words the log does not have: a guard of another rank says what they died of."""
    spoke: set[int | None] = {t.rank for t in facts.tracebacks if t.rank is not None and parse_guard_error(t) is None}
    spoke |= {None} if any(t.rank is None and not is_echo(t) for t in facts.tracebacks) else set()
    found = []
    for error in guard_errors(facts.tracebacks):
        said = error.said
        if said.kind != "failed" or spoke & {*said.ranks, None}:
            continue
        exception, message = split_exception(said.detail)
        found.append(Crash(said.ranks[0], exception, message, error.evidence))
    return found


def _end_of(traceback: PythonTraceback, facts: Facts) -> float | None:
    """When the rank that raised it ended, as its launcher says: lines of tracebacks carry no time."""
    rank = facts.ranks.get(traceback.rank) if traceback.rank is not None else None
    if rank is None or rank.exit is None or rank.exit.attempt != traceback.attempt:
        return None
    return rank.exit.time_s


def _from_exits(facts: Facts) -> list[Crash]:
    found = []
    explained = {t.rank for t in facts.tracebacks if t.rank is not None}
    explained |= {e.rank for e in orphaned_exception_lines(facts) if e.rank is not None and _ECHO_TEXT.search(e.text)}
    explained |= _explained_by_unranked_echoes(facts)
    alone, lone_abort = _killed_alone(facts), _aborted_alone(facts)
    timeouts = first_timeouts(facts)
    for rank in facts.ranks.values():
        if rank.exit is None or rank.alive or is_collateral_exit(rank):
            continue
        unexplained = lone_abort and rank.stack is None
        crash = _crash_of_exit(
            rank.rank,
            rank.exit,
            has_traceback=rank.rank in explained,
            alone=rank.exit.exit_code in alone,
            by_itself=unexplained or _ended_itself(rank),
        )
        if crash is not None:
            when = timeouts.classify_exit(rank.exit, rank.rank)
            found.append(replace(crash, when=TimeoutOrder.UNKNOWN if unexplained else when))
    placed = {(e.source.path, e.source.line) for r in facts.ranks.values() if (e := r.exit) is not None}
    for exit_ in facts.exits:
        # A launcher that names only the local rank: that somebody was killed is known, who is not.
        if exit_.rank is not None or exit_.terminated_by_launcher or (exit_.source.path, exit_.source.line) in placed:
            continue
        crash = _crash_of_exit(None, exit_, has_traceback=True)
        if crash is not None:
            found.append(replace(crash, when=timeouts.classify_exit(exit_)))
    return found


def _explained_by_unranked_echoes(facts: Facts) -> set[int]:
    """Ranks with a plain exit code whose exceptions, printed without a rank, all say that a partner could not be
    reached or is gone. One for each of them must be there: another may have failed without a word."""
    silent = {
        rank.rank
        for rank in facts.ranks.values()
        if rank.exit is not None
        and not rank.tracebacks
        and not rank.exit.terminated_by_launcher
        and 0 < (rank.exit.exit_code or 0) <= _PLAIN_CODES
    }
    unsigned = [t for t in facts.tracebacks if t.rank is None and not raised_by_launcher(t)]
    lone = [e for e in orphaned_exception_lines(facts) if e.rank is None]
    echoes = all(is_echo(t) for t in unsigned) and all(_ECHO_TEXT.search(e.text) for e in lone)
    return silent if len(unsigned) + len(lone) >= len(silent) and echoes else set()


def _killed_alone(facts: Facts) -> set[int | None]:
    """Exit codes that one rank has, which was killed while the launcher still ran and then ended the others: whoever
    sent the signal meant this one. A scheduler or a person who ends the job reaches the launcher, which then ends
    every rank itself."""
    exits = [rank.exit for rank in facts.ranks.values() if rank.exit is not None]
    if not any(exit_.terminated_by_launcher for exit_ in exits):
        return set()
    codes = Counter(exit_.exit_code for exit_ in exits if not exit_.terminated_by_launcher)
    return {code for code, count in codes.items() if count == 1}


def _aborted_alone(facts: Facts) -> bool:
    """One process aborted, no other failed, and nobody printed that a wait ran out, as watchdogs do that abort."""
    exits = [rank.exit for rank in facts.ranks.values() if rank.exit is not None and rank.exit.exit_code]
    aborted = [exit_ for exit_ in exits if exit_.exit_code in (-signal.SIGABRT, _PLAIN_CODES + signal.SIGABRT)]
    told = any(not raised_by_launcher(t) for t in facts.tracebacks) or facts.events_of("wd.", "hb.", "gloo.to")
    return len(aborted) == len(exits) == 1 and not told


def _ended_itself(rank: RankFacts) -> bool:
    """The signal came in a thread of the program that waited for nobody: a library that gave up in native code, or the
    program itself, did that. Watchdogs abort in threads of their own, in which no Python runs."""
    fell = (
        any(thread.took_fatal_signal and thread.frames for thread in rank.stack.threads)
        if rank.stack is not None
        else False
    )
    return fell and rank.activity is not None and rank.activity.operation is None


def _crash_of_exit(
    rank: int | None, exit_: ProcessExit, *, has_traceback: bool, alone: bool = False, by_itself: bool = False
) -> Crash | None:
    code = exit_.exit_code
    if code is None or code == 0:
        return None
    number = -code if code < 0 else code - 128 if 128 < code < 160 else None
    sent_to_it = alone and number in _SENT_BY_HAND and not has_traceback
    if number in _VICTIM_SIGNALS and not (sent_to_it or (by_itself and number == signal.SIGABRT)):
        return None
    if number is None and has_traceback:
        return None
    name = signal_name(number) if number is not None else ""
    text = exit_.text or f"a process ended with exit code {code}"
    return Crash(
        rank=rank,
        exception=name,
        message="",
        evidence=Evidence(exit_.source, text, rank),
        attempt=exit_.attempt,
        time_s=exit_.time_s,
        signal=number,
        exit_code=code,
    )


def _once_per_rank(crashes: Iterable[Crash]) -> list[Crash]:
    """One crash a rank and attempt: the exception says more than the exit code that followed."""
    best: dict[tuple[object, ...], Crash] = {}
    for crash in sorted(crashes, key=_order):
        key = (crash.rank, crash.attempt) if crash.rank is not None else (None, crash.exception, crash.message)
        if key not in best or (not best[key].message and crash.message):
            best[key] = crash
    return list(best.values())


def _order(crash: Crash) -> tuple[int, float, int, int, str, int]:
    return (
        crash.attempt,
        crash.time_s if crash.time_s is not None else float("inf"),
        0 if crash.message else 1,
        crash.rank if crash.rank is not None else 1 << 60,
        crash.evidence.source.path,
        crash.evidence.source.line or 0,
    )
