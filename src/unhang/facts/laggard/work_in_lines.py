"""What lines alone tell of a rank that the others waited for in vain: that it worked, and in what.

A bar that spans the others' limit, lines during their wait, a waiter's stack, last words at its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from unhang.evidence.items import LastLine, Progress
from unhang.facts.endings.ended_from_outside import ended_by_user
from unhang.facts.evidence_quotes import quote_progress
from unhang.facts.laggard.main_process_first import MainProcessWait, main_process_wait
from unhang.facts.logs.event_timing import is_preparing, is_training
from unhang.facts.logs.last_log_lines import LastLinePhase, last_line_phases, phase_of_line
from unhang.facts.logs.waits_in_logs import LoggedWaits, logged_waits
from unhang.facts.model import Facts
from unhang.findings import Evidence, Phase
from unhang.knowledge.thresholds import threshold, whole_threshold
from unhang.sentences import shortened

# torch's own limits: NCCL since 2.2, and every other backend or older NCCL.
DEFAULT_LIMITS_S = (600.0, 1800.0)
EARLY_S = threshold("work_in_lines.early_s")
LATE = threshold("work_in_lines.late")
HALF = threshold("work_in_lines.half")
"""Of the limit, by the bar's own clock: younger bars began while the others already waited."""
_SIDE_BY_SIDE = whole_threshold("work_in_lines.side_by_side")


@dataclass(frozen=True, slots=True)
class SpanningWork:
    """``label`` had run for ``elapsed_s``, about ``limit_s``, and was not done."""

    rank: int | None
    label: str
    done: int
    total: int
    elapsed_s: float
    limit_s: float
    limit_seen: bool
    """The limit was printed; else it is torch's default."""
    evidence: Evidence


def spanning_work(facts: Facts) -> SpanningWork | None:
    """The unfinished bar whose own clock stands at the limit of the others; None when there is none."""
    logged = logged_waits(facts)
    if logged is None and not facts.tracebacks:
        return None
    seen = logged.limits if logged is not None else ()
    found = []
    for log in facts.logs:
        ready = tuple(filter(_is_done, log.progress))
        for progress in log.progress:
            for work in ((progress,), (*_done_before(progress, ready), progress)):
                limit = _spanned(work, seen or DEFAULT_LIMITS_S) or _counted_through(facts, progress, seen)
                if limit is not None and not _everybody_counts(facts, progress, logged):
                    found.append((work, limit))
    if not found:
        return None
    work, limit = max(found, key=lambda item: item[0][-1].last_line)
    progress = work[-1]
    rank = progress.rank if progress.rank is not None else absent_rank(facts, logged)
    assert progress.total is not None
    return SpanningWork(
        rank=rank,
        label=", ".join(bar.label for bar in work),
        done=progress.last_step,
        total=progress.total,
        elapsed_s=_elapsed_s(work),
        limit_s=limit,
        limit_seen=bool(seen),
        evidence=quote_progress(progress),
    )


def unfinished_work(facts: Facts) -> Progress | None:
    """The last bar of preparing work that was not done and that no rank that gave up waiting shows."""
    logged = logged_waits(facts)
    bars = [
        bar
        for log in facts.logs
        for bar in log.progress
        if bar.label != "bar" and bar.total is not None and 0 < bar.last_step < bar.total and bar.elapsed_s is not None
        if not is_training(bar) and not _everybody_counts(facts, bar, logged)
    ]
    return max(bars, key=lambda bar: bar.last_line, default=None)


def _done_before(progress: Progress, bars: Sequence[Progress]) -> tuple[Progress, ...]:
    """Of ``bars``, which are done, those of the same speaker and attempt: its work is all of them."""
    first = progress.source.line or 0
    return tuple(
        bar for bar in bars if (bar.rank, bar.attempt) == (progress.rank, progress.attempt) and bar.last_line <= first
    )


def _is_done(bar: Progress) -> bool:
    ended = bar.elapsed_s is not None and bar.total is not None and bar.last_step >= bar.total
    return ended and bar.label != "bar" and is_preparing(bar)


def _elapsed_s(work: Sequence[Progress]) -> float:
    return sum(bar.elapsed_s or 0.0 for bar in work)


def _spanned(work: Sequence[Progress], limits: tuple[float, ...]) -> float | None:
    progress = work[-1]
    if progress.total is None or progress.elapsed_s is None or progress.last_step >= progress.total:
        return None
    if progress.label == "bar" or is_training(progress):
        return None
    return next((s for s in limits if s - EARLY_S <= _elapsed_s(work) <= s * LATE and s > 2 * EARLY_S), None)


def _counted_through(facts: Facts, progress: Progress, limits: tuple[float, ...]) -> float | None:
    """The limit that the others' wait had when it passed in the middle of this bar, which counted on behind it."""
    if progress.total is None or progress.last_step <= progress.first_step or not limits:
        return None
    if progress.label == "bar" or is_training(progress):
        return None
    place = (progress.source.path, progress.attempt)
    told = [e for e in facts.events_of("wd.timeout") if (e.source.path, e.attempt) == place]
    gave_up = [event.source.line or 0 for event in told]
    through = bool(gave_up) and (progress.source.line or 0) < min(gave_up) <= max(gave_up) <= progress.last_line
    return limits[0] if through and (progress.elapsed_s or 0.0) >= limits[0] * HALF else None


def _is_from_several_ranks(progress: Progress) -> bool:
    """Nobody's bar, three times the same on lines that follow each other: the ranks' prefixes were lost."""
    between = progress.last_line - (progress.source.line or progress.last_line)
    return progress.rank is None and len(progress.recent) == 1 and 2 <= between <= _SIDE_BY_SIDE


def _everybody_counts(facts: Facts, progress: Progress, logged: LoggedWaits | None) -> bool:
    """A rank that gave up waiting shows the same bar: it is work of all, and not what the others waited for."""
    waiters = set(logged.ranks) if logged is not None else set()
    return _is_from_several_ranks(progress) or any(
        other.label == progress.label and other.rank in waiters and other.last_step > 0
        for log in facts.logs
        for other in log.progress
        if other.rank is not None
    )


def absent_rank(facts: Facts, logged: LoggedWaits | None) -> int | None:
    """The one rank that did not give up, or the one the others name; None when it is unknown."""
    if logged is None:
        return None
    named = {w.awaited for w in logged.waits if w.awaited is not None}
    if len(named) == 1:
        return named.pop()
    if facts.world_size is not None:
        left = set(facts.ranks) - logged.rank_set
        return left.pop() if len(left) == 1 else None
    # From the log of another node rank 0 is no more absent than any other rank of its node.
    elsewhere = 0 not in facts.ranks and len(facts.ranks) > 1
    return 0 if logged.rank_set and not elsewhere and 0 not in logged.rank_set else None


# Of the wait: a line this far into it is no last word before the stall.
INTO_IT = threshold("work_in_lines.into_it")
SLACK_S = threshold("work_in_lines.slack_s")
_COUNTS = re.compile(r"\d+\s*/\s*\d+|\d ?%")
# Lines of a timer or of somebody who waits say nothing about work; a step with a loss needs the others.
_NO_WORK = re.compile(
    r"heart ?beat|monitor|alive|utili[sz]ation|[Ww]aiting|[Rr]etry|NCCL|\b(?:step|iter\w*|epoch)\b.*\bloss\b"
)


@dataclass(frozen=True, slots=True)
class ActiveDuringWait:
    """``rank`` wrote its last line ``after_s`` into a wait of ``wait_s``; ``counts``: the line counts something."""

    rank: int
    after_s: float
    wait_s: float
    counts: bool
    phase: Phase | None
    evidence: Evidence


def active_during_wait(facts: Facts) -> ActiveDuringWait | None:
    """That rank; None when several may be meant, lines carry no times, or it spoke of data it could not get."""
    logged = logged_waits(facts)
    if logged is None or any(w.partner_gone for w in logged.waits):
        return None
    ended = max((w.ended_s for w in logged.waits if w.ended_s is not None), default=None)
    if logged.began_s is None or ended is None:
        return None
    found = [w for log in facts.logs for line in log.last_lines if (w := _worked(facts, logged, line, ended))]
    return found[0] if len({w.rank for w in found}) == 1 else None


def _worked(facts: Facts, logged: LoggedWaits, line: LastLine, ended_s: float) -> ActiveDuringWait | None:
    rank = line.rank if line.rank is not None else absent_rank(facts, logged)
    if rank is None or rank in logged.rank_set or line.time_s is None or logged.began_s is None:
        return None
    after, wait = line.time_s - logged.began_s, ended_s - logged.began_s
    phase = phase_of_line(line.text)
    if not wait * INTO_IT <= after <= wait + SLACK_S or phase is Phase.DATA or _NO_WORK.search(line.text):
        return None
    counts = _COUNTS.search(line.text) is not None
    if line.rank is None and not counts:
        return None  # a launcher or a collector may have said it
    return ActiveDuringWait(rank, after, wait, counts, phase, Evidence(line.source, shortened(line.text), rank))


# A barrier this early in a group, or before any step, is the one that frameworks put around preparing data.
FIRST_POSITIONS = whole_threshold("work_in_lines.first_positions")
# The last line and the moment the others began to wait lie this close together.
SAME_MOMENT_S = threshold("work_in_lines.same_moment_s")


@dataclass(frozen=True, slots=True)
class FirstBarrier:
    """Everybody but ``rank`` waits in one of the first barriers."""

    rank: int


WorkInLines = SpanningWork | MainProcessWait | ActiveDuringWait | LastLinePhase | FirstBarrier


def work_in_lines(facts: Facts) -> WorkInLines | None:
    """The most telling of a bar that spans the others' limit, a waiter's stack, lines during the wait, last words at
    its beginning, and a first barrier; None where stacks or records show where that rank stood."""
    told = (spanning_work, _main_process_prepares, active_during_wait, _busy_at_start, _first_barrier)
    found = (work for look in told if (work := look(facts)) is not None)
    return next((work for work in found if isinstance(work, MainProcessWait) or _lines_tell(facts, work.rank)), None)


def _lines_tell(facts: Facts, rank: int | None) -> bool:
    """Nothing shows where ``rank`` stood, so that what it printed last is where it was."""
    known = facts.ranks.get(rank) if rank is not None else None
    return known is None or (known.stack is None and known.recording is None)


def _main_process_prepares(facts: Facts) -> MainProcessWait | None:
    """Unless the main process is gone, or waits itself: it gave up, or was in a call when somebody ended the job."""
    wait, logged, by_hand = main_process_wait(facts), logged_waits(facts), ended_by_user(facts)
    if wait is None:
        return None
    if logged is None:
        return None if by_hand is not None and wait.first in by_hand.joined else wait
    return None if wait.first in logged.ranks or any(one.partner_gone for one in logged.waits) else wait


def _busy_at_start(facts: Facts) -> LastLinePhase | None:
    """A rank that did not give up spoke of saving or evaluating at the moment the others began to wait."""
    logged = logged_waits(facts)
    for words in last_line_phases(facts) if logged is not None else ():
        if logged is None or words.rank in logged.rank_set or words.phase not in (Phase.SAVE, Phase.EVAL):
            continue
        absent = absent_rank(facts, logged)
        rank = words.rank if words.rank is not None else absent
        if rank is None:
            continue
        if logged.began_s is None or words.time_s is None:
            if rank == absent:
                return replace(words, rank=rank)
        elif abs(words.time_s - logged.began_s) <= SAME_MOMENT_S:
            return replace(words, rank=rank)
    return None


def _first_barrier(facts: Facts) -> FirstBarrier | None:
    logged = logged_waits(facts)
    return FirstBarrier(0) if logged is not None and _waits_for_rank_0(facts, logged) else None


def _waits_for_rank_0(facts: Facts, logged: LoggedWaits) -> bool:
    """Everyone who gave up waits in one of the first barriers, rank 0 is not among them, and it did not just vanish."""
    if 0 in logged.ranks or any(w.partner_gone for w in logged.waits) or not logged.waits:
        return False
    if facts.events_of("store.reset", "store.eof", "gloo.closed", "n.sock"):
        return False
    if absent_rank(facts, logged) != 0:
        return False
    no_step = not any(is_training(progress) for log in facts.logs for progress in log.progress)
    return all(
        (w.awaited == 0 and w.position is None)
        or (w.barrier and w.position is not None and (w.position <= FIRST_POSITIONS or no_step))
        for w in logged.waits
    )
