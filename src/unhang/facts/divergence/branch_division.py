"""Ranks that a branch on the rank divides: those inside of it call what the others never come to."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from unhang.facts.collective_operations import POINT_TO_POINT
from unhang.facts.divergence.aborted_in_call import laggards_wait_elsewhere
from unhang.facts.divergence.rank_dependent_loop_exit import has_rank_dependent_rounds, rank_bounds_between
from unhang.facts.model import CallMismatch, CodeContext, Facts, RankState, Stall
from unhang.facts.stacks.rank_cohorts import RankCohort, branch_excludes, cohorts_of_mismatch, is_minority_inside
from unhang.findings import Phase, Where
from unhang.program.rank_dependence.rank_dependent_rounds import RankBound


class Division(enum.Enum):
    """Who is odd, and why."""

    ENTERED_ALONE = "the few inside call what nobody else calls"
    LED_AROUND = "the few outside never come to the call"
    LEFT_LOOP = "those outside left the loop under a test of the rank"


@dataclass(frozen=True, slots=True)
class BranchDivision:
    """``inside`` stand in the branch, ``outside`` elsewhere for good, or in another arm."""

    kind: Division
    inside: RankCohort
    outside: RankCohort
    divided_by: CallMismatch | Stall
    bound: tuple[Where, RankBound] | None = None
    """Of those that left a loop: its header, and the jump."""
    whole: bool = True

    @property
    def odd(self) -> tuple[RankCohort, RankCohort]:
        """(who took the other way, the others)."""
        alone = self.kind is Division.ENTERED_ALONE
        return (self.inside, self.outside) if alone else (self.outside, self.inside)


def divisions_of_mismatches(facts: Facts) -> Iterator[BranchDivision]:
    """Of calls at one position, some of which stand in a branch on the rank."""
    for mismatch in facts.mismatches:
        cohorts = cohorts_of_mismatch(facts, mismatch)
        inside = [c for c in cohorts if c.context is CodeContext.RANK_BRANCH]
        outside = [c for c in cohorts if c.context is not CodeContext.RANK_BRANCH]
        found = None
        if inside and outside:
            found = _divided(facts, outside[0], inside[0], mismatch)
        elif len(inside) == len(cohorts) >= 2:
            found = _all_inside(facts, inside, mismatch)
        if found is not None:
            yield found


def division_of_stall(facts: Facts, stall: Stall, laggards: RankCohort, waiters: RankCohort) -> BranchDivision | None:
    """Waiters inside a branch that the laggards have gone around for good."""
    in_branch = laggards.what == "group-setup" and laggards.context is CodeContext.RANK_BRANCH
    if in_branch and laggards.branch_line != waiters.branch_line:
        # Making a group needs every rank of the job, not only those that will be in it.
        return BranchDivision(Division.ENTERED_ALONE, laggards, waiters, stall)
    if waiters.context is not CodeContext.RANK_BRANCH or not _will_not_come(facts, stall, laggards):
        return None
    if stall.call is not None and stall.call.operation in POINT_TO_POINT:
        return None  # the halves of a send stand in different arms of a branch on the rank wherever there is one
    if not branch_excludes(waiters, stall.laggards, facts.world_size):
        return None
    return _divided(facts, laggards, waiters, stall)


def _will_not_come(facts: Facts, stall: Stall, laggards: RankCohort) -> bool:
    """The laggards will not come: they have ended, are in another call, or at the end; work they do would end."""
    if laggards_wait_elsewhere(facts, stall):
        return True  # also where Gloo ended them in it
    states = {facts.ranks[rank].state for rank in stall.laggards}
    if states & {RankState.CRASHED, RankState.ENDED_WITH_OTHERS} or stall.reason == "silent":
        return False
    at_end = laggards.phase in (Phase.SHUTDOWN, Phase.COMMUNICATION) or laggards.context is CodeContext.AFTER_LOOP
    return laggards.ended or at_end


def _divided(
    facts: Facts, outside: RankCohort, inside: RankCohort, divided_by: CallMismatch | Stall
) -> BranchDivision | None:
    """Rounds that the rank settled beforehand are no branch."""
    if has_rank_dependent_rounds(facts, outside, inside):
        return None
    # the jump out of the loop around those inside, on what a rank of its kind finds out there
    told = rank_bounds_between(facts, outside, inside)
    jump = next((one for one in told if one[1].kind != "loop" and one[1].depends_on == "finding"), None)
    if jump is not None:
        return BranchDivision(Division.LEFT_LOOP, inside, outside, divided_by, jump)
    alone = is_minority_inside(inside, outside, facts.world_size)
    return BranchDivision(Division.ENTERED_ALONE if alone else Division.LED_AROUND, inside, outside, divided_by)


def _all_inside(facts: Facts, cohorts: list[RankCohort], mismatch: CallMismatch) -> BranchDivision | None:
    """Of two arms the one with fewer ranks is odd. In one and the same arm nobody has entered alone: those whom the
    branch leads around it at times have gone around a call in an earlier step."""
    if len({(c.where.file if c.where is not None else "", c.stack_context.branch) for c in cohorts}) > 1:
        return BranchDivision(Division.ENTERED_ALONE, *_smaller_and_other(cohorts, cohorts), mismatch)
    led_around = [c for c in cohorts if branch_excludes(c, c.ranks, facts.world_size)]
    if not led_around:
        return None
    laggards, waiters = _smaller_and_other(led_around, cohorts)
    return BranchDivision(Division.LED_AROUND, waiters, laggards, mismatch, whole=len(led_around) == 1)


def _smaller_and_other(among: list[RankCohort], cohorts: list[RankCohort]) -> tuple[RankCohort, RankCohort]:
    smaller = min(among, key=lambda c: (len(c.ranks), c.ranks))
    return smaller, next(c for c in cohorts if c is not smaller)
