"""Ranks that have left a loop in which the others still are, in whatever way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from unhang.facts.divergence.aborted_in_call import caught_in_a_call, sizes_differ
from unhang.facts.divergence.bypass_paths import WaysAround, ways_around
from unhang.facts.divergence.loop_exit_from_stacks import Parted, left_the_loop
from unhang.facts.divergence.rank_dependent_loop_exit import settled_by_rank
from unhang.facts.endings.crashes import own_crashes
from unhang.facts.logs.per_rank_counts import unequal_counts
from unhang.facts.logs.step_counts import step_counts
from unhang.facts.model import CodeContext, Disagreement, Facts, Stall
from unhang.facts.stacks.rank_cohorts import Camp, camps_of_disagreement, camps_of_stall, is_past, past_and_inside
from unhang.findings import Grade


@dataclass(frozen=True, slots=True)
class LeftEarly:
    """``past`` has left the loop; ``inside`` waits in it."""

    past: Camp
    inside: Camp
    told_by: Disagreement | Stall
    grade: Grade
    """What it rests on that it has left."""
    whole: bool = True
    parted: Parted | None = None
    """What tells it without source."""
    around: WaysAround | None = None
    """What else than the end of the data leads out of the loop; None without source."""

    @property
    def group(self) -> str:
        """The group in which they wait."""
        return self.told_by.group

    @property
    def same_rounds(self) -> bool:
        """The loop runs equally often on every rank: it was not the data that ended."""
        return self.around is not None and self.around.same_rounds

    @property
    def chose_to(self) -> bool:
        """It jumped out on what it found by itself, a metric of its own; the loop that it went out of goes over no data
        (a loop inside that one may, see :attr:`over_data`)."""
        return self.around is not None and bool(self.around.jumps) and not self.around.last_over_data

    @property
    def over_data(self) -> bool:
        """It may have been the data that ended, as far as is known."""
        return self.around is None or self.around.over_data

    @property
    def went_around(self) -> bool:
        """Nothing leads out of that loop either: some round went without its collectives."""
        return self.around is not None and self.around.same_rounds and not self.around.out


def left_early(facts: Facts) -> Iterator[LeftEarly]:
    """Every disagreement and stall that divides so, without ranks that an exception took out of the loop."""
    for disagreement in facts.disagreements:
        camps = camps_of_disagreement(facts, disagreement)
        pair = past_and_inside(camps)
        if pair is not None and not _fell(facts, pair[0].ranks):
            yield _left(facts, *pair, disagreement)
        elif (parted := left_the_loop(facts, camps)) is not None and not _fell(facts, parted.past.ranks):
            yield LeftEarly(parted.past, parted.inside, disagreement, Grade.STACK, parted=parted)
    for stall in facts.stalls:
        if _fell(facts, stall.laggards):
            continue
        lag, wait = camps_of_stall(facts, stall)
        if is_past(lag, wait):
            if wait.context is CodeContext.INSIDE_LOOP and (lag.context is CodeContext.AFTER_LOOP or lag.ended):
                yield _left(facts, lag, wait, stall)
            else:
                yield _left(facts, lag, wait, stall, Grade.ORDER, whole=step_counts(facts).differ)
        elif past_and_inside((wait, lag)) == (wait, lag) and caught_in_a_call(facts, stall):
            yield _left(facts, wait, lag, stall, whole=sizes_differ(facts))


def without_its_data(facts: Facts) -> Iterator[LeftEarly]:
    """Those of :func:`left_early` that the source gives another reason than data that ended: a jump on a finding of its
    own, or a round without its collectives; and no rank said that it has fewer steps."""
    counted = unequal_counts(facts)
    short = counted.short if counted is not None and counted.announced else ()
    for left in () if step_counts(facts).differ else left_early(facts):
        if left.went_around or (
            left.chose_to and left.past.ranks != short and not settled_by_rank(facts, left.past, left.inside)
        ):
            yield left


def _left(
    facts: Facts,
    past: Camp,
    inside: Camp,
    told_by: Disagreement | Stall,
    grade: Grade = Grade.SOURCE,
    *,
    whole: bool = True,
) -> LeftEarly:
    return LeftEarly(past, inside, told_by, grade, whole, around=ways_around(past, inside, facts.sources))


def _fell(facts: Facts, ranks: tuple[int, ...]) -> bool:
    """They did not leave the loop, an exception took them out of it."""
    return not {crash.rank for crash in own_crashes(facts)}.isdisjoint(ranks)
