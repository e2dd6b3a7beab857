"""Ranks that have left a loop in which the others still are: told by the program's source, or without it by stacks that
differ in one function and by how many steps the ranks announced.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from unhang.facts.collective_operations import is_barrier
from unhang.facts.divergence.aborted_in_call import gloo_sizes_differ, laggards_wait_elsewhere
from unhang.facts.divergence.bypass_paths import BypassPaths, bypass_paths
from unhang.facts.divergence.other_ways import other_ways
from unhang.facts.divergence.rank_dependent_loop_exit import has_rank_dependent_rounds, was_raised_out
from unhang.facts.logs.interleaved_progress_bars import InterleavedBars, interleaved_bars
from unhang.facts.logs.per_rank_counts import step_counts, unequal_counts
from unhang.facts.model import CallMismatch, CodeContext, Facts, Stall
from unhang.facts.stacks.rank_cohorts import (
    RankCohort,
    cohorts_of_mismatch,
    has_left_loop,
    makes_step,
    split_by_loop,
)
from unhang.facts.stacks.stack_divergence import first_differing_frames
from unhang.findings import Grade


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
    # a barrier, which over NCCL is an all-reduce of one number
    small = [c.call is not None and is_barrier(c.call.operation, c.call.elements) for c in cohorts]
    if small[0] == small[1]:
        return None
    past, inside = (cohorts[0], cohorts[1]) if small[0] else (cohorts[1], cohorts[0])
    counts, bars = step_counts(facts), interleaved_bars(facts.logs)
    if counts.differ:
        return StackLoopExit(past, inside, None, None, None) if counts.short == past.ranks else None
    return StackLoopExit(past, inside, None, None, bars) if bars is not None and bars.one_is_done else None


def _in_a_step(cohort: RankCohort) -> bool:
    return any(map(makes_step, cohort.frames))


class ExitReason(enum.Enum):
    """Why some have left the loop, and the others not."""

    RANK = "the rank had settled beforehand how often it goes around"
    OWN_DECISION = "it jumped out on what it found by itself"
    SKIPPED_ITERATION = "some round went without its collectives"
    DATA = "its data ended, as far as is known"


@dataclass(frozen=True, slots=True)
class EarlyLoopExit:
    """Ranks ``past`` have left the loop in which ``inside`` waits."""

    past: RankCohort
    inside: RankCohort
    divided_by: CallMismatch | Stall
    grade: Grade
    """What it rests on that it has left."""
    whole: bool = True
    stack_evidence: StackLoopExit | None = None
    """What tells it without source."""
    around: BypassPaths | None = None
    """What else than the end of the data leads out of the loop; None without source."""
    reason: ExitReason = ExitReason.DATA

    @property
    def group(self) -> str:
        """The group in which they wait."""
        return self.divided_by.group

    @property
    def over_data(self) -> bool:
        """It may have been the data that ended, as far as is known."""
        return self.around is None or self.around.over_data


def exits_of_mismatches(facts: Facts) -> Iterator[EarlyLoopExit]:
    """Calls at one position that divide so, without ranks that an exception took out of the loop."""
    for mismatch in facts.mismatches:
        cohorts = cohorts_of_mismatch(facts, mismatch)
        pair = split_by_loop(cohorts)
        parted = loop_exit_from_stacks(facts, cohorts) if pair is None else None
        if pair is not None and not was_raised_out(facts, pair[0].ranks):
            yield _early_exit(facts, *pair, mismatch)
        elif parted is not None and not was_raised_out(facts, parted.past.ranks):
            yield _early_exit(facts, parted.past, parted.inside, mismatch, Grade.STACK, parted=parted)


def exit_of_stall(facts: Facts, stall: Stall, laggards: RankCohort, waiters: RankCohort) -> EarlyLoopExit | None:
    """Laggards past the loop in which the others wait; or these past it, and the laggards in another call of it."""
    if was_raised_out(facts, stall.laggards) or _parted_before(facts, stall):
        return None
    if has_left_loop(laggards, waiters):
        past = laggards.context is CodeContext.AFTER_LOOP or laggards.ended
        if past and waiters.context is CodeContext.INSIDE_LOOP:
            return _early_exit(facts, laggards, waiters, stall)
        return _early_exit(facts, laggards, waiters, stall, Grade.ORDER, whole=step_counts(facts).differ)
    if split_by_loop((waiters, laggards)) == (waiters, laggards) and laggards_wait_elsewhere(facts, stall):
        return _early_exit(facts, waiters, laggards, stall, whole=gloo_sizes_differ(facts))
    return None


def _parted_before(facts: Facts, stall: Stall) -> bool:
    """Some had left the common order of calls before, so that the numbers of calls differ and not those of rounds."""
    ways = (way for way in other_ways(facts) if way.call is not None and way.left is not None)
    return any(way.mismatch.group == stall.group and way.mismatch.position < (stall.position or 0) for way in ways)


def _early_exit(
    facts: Facts,
    past: RankCohort,
    inside: RankCohort,
    divided_by: CallMismatch | Stall,
    grade: Grade = Grade.SOURCE,
    *,
    whole: bool = True,
    parted: StackLoopExit | None = None,
) -> EarlyLoopExit:
    around = bypass_paths(past, inside, facts.sources) if parted is None else None
    reason = _reason(facts, past, inside, around)
    return EarlyLoopExit(past, inside, divided_by, grade, whole, parted, around, reason)


def _reason(facts: Facts, past: RankCohort, inside: RankCohort, around: BypassPaths | None) -> ExitReason:
    """The source may give another one than data that ended, unless a rank said that it has fewer steps."""
    unlike_data = around is not None and not step_counts(facts).differ
    if around is not None and unlike_data and around.has_equal_rounds and not around.out:
        return ExitReason.SKIPPED_ITERATION
    if has_rank_dependent_rounds(facts, past, inside):
        return ExitReason.RANK
    # the loop that it jumped out of goes over no data; a loop inside that one may
    jumped = around is not None and unlike_data and bool(around.jumps) and not around.last_over_data
    counted = unequal_counts(facts)
    short = counted.short if counted is not None and counted.announced else ()
    return ExitReason.OWN_DECISION if jumped and past.ranks != short else ExitReason.DATA
