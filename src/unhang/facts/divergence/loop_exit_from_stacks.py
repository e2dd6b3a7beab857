"""Who has left the loop of steps, told without the program's source: from stacks that part in one function, and from
how many steps the ranks announced.
"""

from __future__ import annotations

from dataclasses import dataclass

from unhang.facts.logs.interleaved_progress_bars import InterleavedBars, interleaved_bars
from unhang.facts.logs.per_rank_counts import unequal_counts
from unhang.facts.logs.step_counts import step_counts
from unhang.facts.model import CodeContext, Facts
from unhang.facts.stacks.rank_cohorts import RankCohort
from unhang.facts.stacks.stack_divergence import first_differing_frames
from unhang.knowledge.activities import row_of_frame

_STEP = {"backward", "forward", "optimizer"}


@dataclass(frozen=True, slots=True)
class StackLoopExit:
    """``past``: further down, at ``line`` of the function they share. ``inside``: in a step, at ``step_line`` of it.

    Where nothing was read of their stacks the lines are None: ``past`` waits in a call of one number, as a barrier
    makes it, ``inside`` in a larger one.

    ``bars``: what tells the lengths where no rank's own bar is known.
    """

    past: RankCohort
    inside: RankCohort
    line: int | None
    step_line: int | None
    bars: InterleavedBars | None


def loop_exit_from_stacks(facts: Facts, cohorts: tuple[RankCohort, ...]) -> StackLoopExit | None:
    """The cohort that ran out of steps before the other; None where stacks or counts do not tell."""
    if len(cohorts) != 2 or any(cohort.context is not CodeContext.NO_SOURCE for cohort in cohorts):
        return None
    if not cohorts[0].frames and not cohorts[1].frames:
        return _loop_exit_from_calls(facts, cohorts)
    parted = first_differing_frames(cohorts[0].frames, cohorts[1].frames)
    if parted is None:
        return None
    lines = (parted[0].line or 0, parted[1].line or 0)
    (line, past), (step_line, inside) = sorted(zip(lines, cohorts, strict=True), key=lambda one: -one[0])
    printed = unequal_counts(facts)
    if printed is not None and printed.announced and printed.short == past.ranks:
        return StackLoopExit(past, inside, line, step_line, None)
    if not _in_a_step(inside) or _in_a_step(past):
        return None
    bars = interleaved_bars(facts.logs)
    if step_counts(facts).short != past.ranks and (bars is None or not bars.one_is_done):
        return None
    return StackLoopExit(past, inside, line, step_line, bars)


def _loop_exit_from_calls(facts: Facts, cohorts: tuple[RankCohort, ...]) -> StackLoopExit | None:
    """A watchdog names the calls only. Lengths of bars say that somebody ran out, the lone small call says who."""
    small = [_is_single_element(cohort) for cohort in cohorts]
    if small[0] == small[1]:
        return None
    past, inside = (cohorts[0], cohorts[1]) if small[0] else (cohorts[1], cohorts[0])
    counts, bars = step_counts(facts), interleaved_bars(facts.logs)
    if counts.differ:
        return StackLoopExit(past, inside, None, None, None) if counts.short == past.ranks else None
    return StackLoopExit(past, inside, None, None, bars) if bars is not None and bars.one_is_done else None


def _is_single_element(cohort: RankCohort) -> bool:
    """A barrier, which over NCCL is an all-reduce of one number."""
    call = cohort.call
    return call is not None and (call.operation == "barrier" or (call.operation == "all_reduce" and call.elements == 1))


def _in_a_step(cohort: RankCohort) -> bool:
    rows = (row_of_frame(frame.function, frame.file, native=False) for frame in cohort.frames if not frame.native)
    return any(row is not None and row.what in _STEP for row in rows)
