"""What lines alone tell of a rank that the others waited for in vain: that it worked, and in what."""

from __future__ import annotations

from dataclasses import dataclass, replace

from unhang.facts.endings.ended_by_user import ended_by_user
from unhang.facts.laggard.active_during_wait import ActiveDuringWait, active_during_wait
from unhang.facts.laggard.main_process_first import MainProcessWait, main_process_wait
from unhang.facts.laggard.work_spanning_timeout import SpanningWork, absent_rank, spanning_work
from unhang.facts.logs.event_timing import is_training
from unhang.facts.logs.last_log_lines import LastLinePhase, last_line_phases
from unhang.facts.logs.waits_in_logs import LoggedWaits, logged_waits
from unhang.facts.model import Facts
from unhang.findings import Phase
from unhang.knowledge.thresholds import threshold, whole_threshold

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
