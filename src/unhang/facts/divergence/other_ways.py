"""Ranks of one group that went different ways: some made a call that the others went on without.

Who that was is told by the order in which the group's calls had come until then; by how many they are only where it
tells nothing. The source names what leads around the call, and where nothing is recorded, which of two calls a rank may
go without.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile

from unhang.evidence.items import Frame, LastLine
from unhang.facts.alignment.position_calls import Departure, comes_later, find_departure, was_called_before
from unhang.facts.divergence.bypass_paths import BypassPath, paths_around_call
from unhang.facts.evidence_quotes import quote_line
from unhang.facts.model import CallMismatch, Facts, once
from unhang.facts.stacks.activity import is_in_thread
from unhang.facts.stacks.rank_cohorts import (
    RankCohort,
    cohort_outside_library,
    cohort_past_shared_call,
    cohorts_of_mismatch,
    is_path_unknown,
    makes_step,
)
from unhang.facts.stacks.stack_divergence import diverge_in_library
from unhang.facts.stacks.user_frames import is_user_frame
from unhang.facts.waiting.concurrent_collectives import concurrent_collectives
from unhang.facts.waiting.progress_from_stacks import STACK_GROUP
from unhang.findings import Evidence, Where
from unhang.late_pattern import late_pattern

_SKIPS = late_pattern(r"(?i)\bskip(?:s|ped|ping)?\b|跳过")
_DATA_ENDED = late_pattern(
    r"(?i)\b(?:data|data ?loader|loader|dataset|iterator|batches|samples)\b.{0,30}\b(?:exhausted|used up|ran out)\b"
    r"|\b(?:ran out of|no more) (?:data|batches|samples)\b|数据.{0,6}(?:用完|耗尽)"
)
_MAX_LAST_WORDS = 4
"""Lines of a rank: what it skipped or what ended, and what it did instead."""


@dataclass(frozen=True, slots=True)
class CallOfSome:
    """Ranks at a call that others went on without."""

    made: RankCohort
    without: RankCohort
    around: tuple[BypassPath, ...]
    """What leads around it."""
    unsure: bool = False
    """The two are in different calls, and nothing tells which of them came too early."""
    came_out: Where | None = None
    """The line that those who made it have come through, and in which the others still are, as ``trainer.fit()``."""

    @property
    def is_inside_line(self) -> bool:
        """The others are on its line too, as below ``trainer.fit()``."""
        at = self.made.where
        return at is not None and any((f.file, f.line) == (at.file, at.line) for f in self.without.frames)

    @property
    def in_thread(self) -> bool:
        """A thread beside the training made it."""
        return is_in_thread(self.made.frames) and not is_in_thread(self.without.frames)


@dataclass(frozen=True, slots=True)
class OtherWay:
    """Ranks of one group that are in different calls at one position, by no difference of arguments."""

    mismatch: CallMismatch
    ranks: tuple[int, ...]
    """Who went the odd way, else all."""
    call: CallOfSome | None
    """None where nothing tells which of the calls it is."""
    left: Departure | None
    new: bool
    """The odd call is one that these ranks had not made before, or one rank's of which no record was read."""
    path_unknown: bool
    """Of some no source was read: the odd call may follow the loop that the others are in."""
    skips: tuple[Evidence, ...] = ()
    """The last words of the odd one, where they say that it skips something, and those of no other rank do."""
    out_of_data: tuple[Evidence, ...] = ()
    """So, where they say that its data have ended."""

    @property
    def skipped(self) -> bool:
        """The odd ranks went on without it; else they alone made it."""
        return self.call is not None and not set(self.call.made.ranks) <= set(self.ranks)

    @property
    def may_be_behind_loop(self) -> bool:
        """Rank 0 alone has work of its own in the loop."""
        odd = self.left.whole_rounds if self.left is not None and self.left.skipped else self.new
        return self.path_unknown and odd and self.ranks != (0,) and not self.skips

    @property
    def whole(self) -> bool:
        """Records tell who it was, as the source or the number of ranks on each side does, and nothing says else."""
        mismatch, left = self.mismatch, self.left
        if left is None or self.path_unknown or not mismatch.records_align or mismatch.aborted or left.whole_rounds:
            return False
        call, rest = self.call, {rank for ranks in mismatch.calls.values() for rank in ranks}.difference(self.ranks)
        if call is None or diverge_in_library(call.made.frames, call.without.frames):
            return False
        return len(self.ranks) < len(rest) or (len(self.ranks) == len(rest) and (self.skipped or bool(call.around)))


@once
def other_ways(facts: Facts) -> tuple[OtherWay, ...]:
    """Of every mismatch that has one."""
    return tuple(_other_ways(facts))


def _other_ways(facts: Facts) -> Iterator[OtherWay]:
    """Where records, or the source, tell which call only some made; and of other operations where no source was read
    that would say how the ranks parted."""
    threads = concurrent_collectives(facts)
    for mismatch in facts.mismatches:
        cohorts, group = cohorts_of_mismatch(facts, mismatch), facts.groups.get(mismatch.group)
        if group is None or (threads is not None and threads.group == group.name):
            continue
        left = find_departure(group.entries, mismatch.position, some_missing=bool(mismatch.aborted))
        if mismatch.aborted and not (left.skipped if left is not None else mismatch.outliers == mismatch.aborted):
            continue
        call = _made_by_some(facts, cohorts, left, all_wait=len(group.pending_calls) == len(group.members))
        if mismatch.aborted and left is None:
            call = _made_by_aborted(facts, cohorts, mismatch)
        in_logs = all(progress.source_kind == "log" for progress in group.progress.values())
        path_unknown = in_logs or is_path_unknown(facts, cohorts)
        operations = "operation" in mismatch.differs_in and not mismatch.group.startswith(STACK_GROUP)
        odd = _odd_ranks(facts, cohorts, mismatch, call, in_order=left is not None)
        ended = _said_alone(facts, odd, _DATA_ENDED)
        if call is None and not (operations and path_unknown) and not ended:
            continue
        recorded = [group.entries[rank] for rank in odd if rank in group.entries]
        yield OtherWay(
            mismatch,
            odd or tuple(sorted(rank for cohort in cohorts for rank in cohort.ranks)),
            call,
            left,
            (len(odd) == 1 and not recorded)
            or any(not was_called_before(entries, mismatch.position) for entries in recorded),
            path_unknown,
            _said_alone(facts, odd, _SKIPS),
            ended,
        )


def _made_by_some(
    facts: Facts, cohorts: tuple[RankCohort, ...], left: Departure | None, *, all_wait: bool
) -> CallOfSome | None:
    """None where nothing tells which call it is, or each side has an arm of one test."""
    if left is None:
        return _made_by_source(facts, cohorts) if all_wait else None
    odd = [cohort for cohort in cohorts if set(cohort.ranks) <= set(left.ranks)]
    due = [cohort for cohort in cohorts if cohort not in odd]
    if not odd or not due:
        return None
    tests = {way.where for way in paths_around_call(due[0].frames, facts.sources) if way.kind == "if"}
    call = call_of_some(facts, due[0], odd[0]) if left.skipped else call_of_some(facts, odd[0], due[0])
    arms = any(way.kind == "if" and way.where in tests for way in call.around)
    return None if arms and not left.skipped else call


def _made_by_source(facts: Facts, cohorts: tuple[RankCohort, ...]) -> CallOfSome | None:
    """Of two calls at different lines, of the program or of a library, the one that something leads around, and not
    around both."""
    if len(cohorts) != 2 or not _are_apart(*cohorts):
        return None
    calls = [call for call in (call_of_some(facts, *cohorts), call_of_some(facts, *cohorts[::-1])) if call.around]
    return calls[0] if len(calls) == 1 else None


def _made_by_aborted(facts: Facts, cohorts: tuple[RankCohort, ...], mismatch: CallMismatch) -> CallOfSome | None:
    """Of ranks that Gloo ended at another line than that of the others, who made the call that was due: they have gone
    past it where their line comes later in the order, else they made another one."""
    ended, others = ([one for one in cohorts if (one.ranks == mismatch.aborted) is gone] for gone in (True, False))
    at, elsewhere = (side[0].where if len(side) == 1 else None for side in (ended, others))
    if at is None or elsewhere is None or at == elsewhere:
        return None
    entries = facts.groups[mismatch.group].entries[others[0].ranks[0]]
    past = comes_later(entries, mismatch.position, at)
    call = call_of_some(facts, *(others + ended if past else ended + others))
    return replace(call, unsure=not any(entries.stacks) and not call.in_thread)


def call_of_some(facts: Facts, made: RankCohort, without: RankCohort) -> CallOfSome:
    """With what leads around it and not around both."""
    shared = paths_around_call(without.frames, facts.sources) if _are_apart(made, without) else ()
    around = paths_around_call(made.frames, facts.sources)
    passed = cohort_past_shared_call(facts, (made, without))
    came_out = without.where if passed is not None and passed[0] is made and _is_in_trainer(without) else None
    return CallOfSome(made, without, tuple(way for way in around if way not in shared), came_out=came_out)


def _are_apart(one: RankCohort, other: RankCohort) -> bool:
    return one.where != other.where or diverge_in_library(one.frames, other.frames)


def _is_in_trainer(cohort: RankCohort) -> bool:
    """Its own line called into a library that has the loop; torch itself has none."""
    return any(not frame.native and "/torch/" not in frame.file for frame in _in_libraries(cohort))


def _is_in_a_step(cohort: RankCohort) -> bool:
    """Its own line called into a library for what belongs to every step."""
    return any(makes_step(frame) for frame in _in_libraries(cohort))


def _in_libraries(cohort: RankCohort) -> Iterator[Frame]:
    return takewhile(lambda frame: frame.line is None or not is_user_frame(frame), cohort.frames)


def _odd_ranks(
    facts: Facts, cohorts: tuple[RankCohort, ...], mismatch: CallMismatch, call: CallOfSome | None, *, in_order: bool
) -> tuple[int, ...]:
    if not in_order and call is not None and call.around:
        # what belongs to every step was gone around; what stands under a test was gone into
        entered = call.around[0].kind in ("if", "__del__") and not _is_in_a_step(call.made)
        return (call.made if entered else call.without).ranks
    place = None if mismatch.outliers else cohort_outside_library(facts, cohorts)
    return place.ranks if place is not None else mismatch.outliers


def _said_alone(facts: Facts, odd: tuple[int, ...], words: re.Pattern[str]) -> tuple[Evidence, ...]:
    """The last lines of the odd one, from the first with these words on, where no other rank's have them."""
    last: dict[int | None, list[LastLine]] = defaultdict(list)
    for log in facts.logs:
        for line in log.said:
            last[line.rank].append(line)
    latest = {rank: lines[-_MAX_LAST_WORDS:] for rank, lines in last.items()}
    saying = [rank for rank, lines in latest.items() if any(words.search(line.text) for line in lines)]
    if len(odd) != 1 or saying != [*odd]:
        return ()
    first = next(at for at, line in enumerate(latest[odd[0]]) if words.search(line.text))
    return tuple(map(quote_line, latest[odd[0]][first:]))
