"""Ranks that have left a loop in which the others still are, in whatever way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from unhang.facts.divergence.aborted_in_call import gloo_sizes_differ, laggards_wait_elsewhere
from unhang.facts.divergence.bypass_paths import BypassPaths, bypass_paths
from unhang.facts.divergence.loop_exit_from_stacks import StackLoopExit, loop_exit_from_stacks
from unhang.facts.divergence.rank_dependent_loop_exit import has_rank_dependent_rounds
from unhang.facts.endings.crashes import primary_crashes
from unhang.facts.logs.per_rank_counts import unequal_counts
from unhang.facts.logs.step_counts import step_counts
from unhang.facts.model import CallMismatch, CodeContext, Facts, Stall
from unhang.facts.stacks.rank_cohorts import (
    RankCohort,
    cohorts_of_mismatch,
    cohorts_of_stall,
    has_left_loop,
    split_by_loop,
)
from unhang.findings import Grade


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

    @property
    def group(self) -> str:
        """The group in which they wait."""
        return self.divided_by.group

    @property
    def has_equal_rounds(self) -> bool:
        """The loop runs equally often on every rank: it was not the data that ended."""
        return self.around is not None and self.around.has_equal_rounds

    @property
    def is_own_decision(self) -> bool:
        """It jumped out on what it found by itself, a metric of its own; the loop that it went out of goes over no data
        (a loop inside that one may, see :attr:`over_data`)."""
        return self.around is not None and bool(self.around.jumps) and not self.around.last_over_data

    @property
    def over_data(self) -> bool:
        """It may have been the data that ended, as far as is known."""
        return self.around is None or self.around.over_data

    @property
    def skipped_iteration(self) -> bool:
        """Nothing leads out of that loop either: some round went without its collectives."""
        return self.around is not None and self.around.has_equal_rounds and not self.around.out


def early_loop_exits(facts: Facts) -> Iterator[EarlyLoopExit]:
    """Every disagreement and stall that divides so, without ranks that an exception took out of the loop."""
    for mismatch in facts.mismatches:
        cohorts = cohorts_of_mismatch(facts, mismatch)
        pair = split_by_loop(cohorts)
        if pair is not None and not _raised(facts, pair[0].ranks):
            yield _early_exit(facts, *pair, mismatch)
        elif (parted := loop_exit_from_stacks(facts, cohorts)) is not None and not _raised(facts, parted.past.ranks):
            yield EarlyLoopExit(parted.past, parted.inside, mismatch, Grade.STACK, stack_evidence=parted)
    for stall in facts.stalls:
        if _raised(facts, stall.laggards):
            continue
        lag, wait = cohorts_of_stall(facts, stall)
        if has_left_loop(lag, wait):
            if wait.context is CodeContext.INSIDE_LOOP and (lag.context is CodeContext.AFTER_LOOP or lag.ended):
                yield _early_exit(facts, lag, wait, stall)
            else:
                yield _early_exit(facts, lag, wait, stall, Grade.ORDER, whole=step_counts(facts).differ)
        elif split_by_loop((wait, lag)) == (wait, lag) and laggards_wait_elsewhere(facts, stall):
            yield _early_exit(facts, wait, lag, stall, whole=gloo_sizes_differ(facts))


def exits_unrelated_to_data(facts: Facts) -> Iterator[EarlyLoopExit]:
    """Those of :func:`early_loop_exits` that the source gives another reason than data that ended: a jump on a finding
    of its
    own, or a round without its collectives; and no rank said that it has fewer steps."""
    counted = unequal_counts(facts)
    short = counted.short if counted is not None and counted.announced else ()
    for left in () if step_counts(facts).differ else early_loop_exits(facts):
        if left.skipped_iteration or (
            left.is_own_decision
            and left.past.ranks != short
            and not has_rank_dependent_rounds(facts, left.past, left.inside)
        ):
            yield left


def _early_exit(
    facts: Facts,
    past: RankCohort,
    inside: RankCohort,
    divided_by: CallMismatch | Stall,
    grade: Grade = Grade.SOURCE,
    *,
    whole: bool = True,
) -> EarlyLoopExit:
    return EarlyLoopExit(past, inside, divided_by, grade, whole, around=bypass_paths(past, inside, facts.sources))


def _raised(facts: Facts, ranks: tuple[int, ...]) -> bool:
    """They did not leave the loop, an exception took them out of it."""
    return not {crash.rank for crash in primary_crashes(facts)}.isdisjoint(ranks)
