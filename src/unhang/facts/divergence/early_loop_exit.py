"""Ranks that have left a loop in which the others still are, in whatever way."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from unhang.facts.divergence.aborted_in_call import gloo_sizes_differ, laggards_wait_elsewhere
from unhang.facts.divergence.bypass_paths import BypassPaths, bypass_paths
from unhang.facts.divergence.loop_exit_from_stacks import StackLoopExit, loop_exit_from_stacks
from unhang.facts.divergence.rank_dependent_loop_exit import has_rank_dependent_rounds, was_raised_out
from unhang.facts.logs.per_rank_counts import unequal_counts
from unhang.facts.logs.step_counts import step_counts
from unhang.facts.model import CallMismatch, CodeContext, Facts, Stall
from unhang.facts.stacks.rank_cohorts import (
    RankCohort,
    cohorts_of_mismatch,
    has_left_loop,
    split_by_loop,
)
from unhang.findings import Grade


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
    if was_raised_out(facts, stall.laggards):
        return None
    if has_left_loop(laggards, waiters):
        past = laggards.context is CodeContext.AFTER_LOOP or laggards.ended
        if past and waiters.context is CodeContext.INSIDE_LOOP:
            return _early_exit(facts, laggards, waiters, stall)
        return _early_exit(facts, laggards, waiters, stall, Grade.ORDER, whole=step_counts(facts).differ)
    if split_by_loop((waiters, laggards)) == (waiters, laggards) and laggards_wait_elsewhere(facts, stall):
        return _early_exit(facts, waiters, laggards, stall, whole=gloo_sizes_differ(facts))
    return None


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
