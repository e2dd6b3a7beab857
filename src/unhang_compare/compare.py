"""Compare two sides: say first what grew and where, then what was changed, then what could not be compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unhang.findings import NotChecked, Where
from unhang.sentences import say
from unhang_compare import noise
from unhang_compare.changes import find_changes, find_version_changes
from unhang_compare.comparison import (
    GREW,
    RANKS,
    RUNS,
    SAME,
    SHRANK,
    SPANS,
    TRACES,
    UNDECIDED,
    Change,
    RankPair,
    RunComparison,
    SideSummary,
    StepPart,
)
from unhang_compare.comparison_side import TRACE, ComparisonSide
from unhang_compare.conclusion import ConclusionInput, draw_conclusion
from unhang_compare.rank_times import OWN, Activity, RankTimes
from unhang_compare.time_growth import compare_parts, compare_rank, pool_ranks, step_times

if TYPE_CHECKING:
    from unhang_compare.rank_times import FloatColumn

_LARGE_SHARE = 0.25
"""Of a step: a difference that somebody would want to hear of, however few samples there are."""
MAX_RANKS = 32
"""So many ranks are looked at in detail: those whose own work changed most."""

Pairs = dict["int | None", tuple[RankTimes, RankTimes]]


@dataclass(frozen=True, slots=True)
class _Pairing:
    pairs: Pairs
    missing: tuple[NotChecked, ...]


def compare_sides(before: ComparisonSide, after: ComparisonSide) -> RunComparison:
    """Two runs, or two traces."""
    kind = TRACES if before.kind == after.kind == TRACE else RUNS
    return _compared(kind, before, after, _changes(before, after), edited=_edited(before, after))


def compare_spans(before: ComparisonSide, after: ComparisonSide) -> RunComparison:
    """Two spans of steps of one run or trace."""
    return _compared(SPANS, before, after, (), edited=False)


def compare_ranks(before: ComparisonSide, after: ComparisonSide) -> RunComparison:
    """Ranks of one run or trace against other ones: steps are alike where ranks wait for each other, parts are not."""
    sides = [[times for times in side.ranks if len(times.step_s)] for side in (before, after)]
    if not sides[0] or not sides[1]:
        return _compared(RANKS, before, after, (), edited=False)
    pair = (replace(pool_ranks(sides[0]), rank=None), replace(pool_ranks(sides[1]), rank=None))
    parts = compare_parts({None: pair})
    named = tuple(sorted(times.rank for times in sides[1] if times.rank is not None))
    other = tuple(sorted(times.rank for times in sides[0] if times.rank is not None))
    grew = tuple(replace(part, ranks=named) for part in parts if part.difference.grew_s > 0)
    shrank = tuple(replace(part, ranks=other) for part in parts if part.difference.grew_s < 0)
    whole = compare_rank(None, *pair, (len(sides[0]), len(sides[1])))
    answer = GREW if any(part.kind == OWN for part in (*grew, *shrank)) else SAME
    if not whole.mean.told:
        answer = UNDECIDED
    return _finished(RANKS, answer, before, after, (whole,), whole, grew, shrank, (), ())


def _edited(before: ComparisonSide, after: ComparisonSide) -> bool:
    """Whether lines may have moved. A trace tells the first line of a function only, which is one whatever it is."""
    if before.kind == TRACE:
        return True
    programs = [side.settings.program.get("sha256") if side.settings is not None else None for side in (before, after)]
    return programs[0] != programs[1]


def _compared(
    kind: str, before: ComparisonSide, after: ComparisonSide, changed: Sequence[Change], *, edited: bool
) -> RunComparison:
    pairing = _paired(before, after)
    if not pairing.pairs:
        return _finished(kind, UNDECIDED, before, after, (), None, (), (), changed, pairing.missing)
    columns = list(pairing.pairs.values())
    looked_at = {
        rank: align_places(*sides) if edited else sides for rank, sides in _most_changed(pairing.pairs).items()
    }
    pairs = {rank: compare_rank(rank, *sides) for rank, sides in looked_at.items()}
    both = pool_ranks([one for one, _ in columns]), pool_ranks([other for _, other in columns])
    whole = compare_rank(None, *both, (len(columns), len(columns)))
    parts = compare_parts(looked_at)
    grew = tuple(part for part in parts if part.difference.grew_s > 0)
    shrank = tuple(part for part in parts if part.difference.grew_s < 0)
    missing = pairing.missing
    if len(pairing.pairs) > MAX_RANKS:
        missing += (
            NotChecked(
                say("Where the time of each of {count} ranks went", count=len(pairing.pairs)),
                say("only the {count} ranks whose own work changed most were compared", count=MAX_RANKS),
                "unhang compare … --ranks 0-31",
            ),
        )
    return _finished(kind, _answer(whole), before, after, tuple(pairs.values()), whole, grew, shrank, changed, missing)


def _answer(whole: RankPair) -> str:
    """Of most steps; where those are as long as before, of their mean (some became much longer)."""
    if not whole.median.told:
        return UNDECIDED
    min_s = noise.MIN_STEP_SHARE * whole.before.median_s
    for one in (whole.median, whole.mean):
        if one.is_real(min_s):
            return GREW if one.grew_s > 0 else SHRANK
    # A step half as long again that a handful of samples cannot prove is not "the same".
    return UNDECIDED if whole.mean.may_hide(_LARGE_SHARE * whole.before.mean_s) else SAME


def _paired(before: ComparisonSide, after: ComparisonSide) -> _Pairing:
    sides = [{times.rank: times for times in side.ranks if len(times.step_s)} for side in (before, after)]
    common = [rank for rank in sides[0] if rank in sides[1] and rank is not None]
    missing = tuple(
        NotChecked(
            say("{ranks:who} of {name}", ranks=tuple(alone), name=side.name),
            say("the other side has no data from them"),
            "",
        )
        for side, mine, other in ((before, sides[0], sides[1]), (after, sides[1], sides[0]))
        if common and (alone := sorted(rank for rank in mine if rank is not None and rank not in other))
    )
    if common:
        return _Pairing({rank: (sides[0][rank], sides[1][rank]) for rank in sorted(common)}, missing)
    if not sides[0] or not sides[1]:
        return _Pairing({}, ())
    known = all(rank is not None for side in sides for rank in side)
    if known and (len(sides[0]) > 1 or len(sides[1]) > 1):
        what = say("Rank by rank")
        missing = (NotChecked(what, say("the two sides have different ranks; each side was taken as a whole"), ""),)
    one, other = (replace(pool_ranks(list(side.values())), rank=None) for side in sides)
    number = next(iter(sides[1])) if len(sides[0]) == len(sides[1]) == 1 else None
    return _Pairing({number: (one, other)}, missing)


def _most_changed(pairs: Pairs) -> Mapping[int | None, tuple[RankTimes, RankTimes]]:
    if len(pairs) <= MAX_RANKS:
        return pairs
    grown = {rank: abs(_own_s(after) - _own_s(before)) for rank, (before, after) in pairs.items()}
    chosen = sorted(grown, key=lambda rank: -grown[rank])[:MAX_RANKS]
    return {rank: pairs[rank] for rank in chosen}


def _own_s(times: RankTimes) -> float:
    return float(sum(np.average(seconds, weights=times.steps) for a, seconds in times.spent.items() if a.kind == OWN))


def _changes(before: ComparisonSide, after: ComparisonSide) -> tuple[Change, ...]:
    if before.settings is not None and after.settings is not None:
        return find_changes(before.settings, after.settings)
    sides = []
    for side in (before, after):
        told = dict(side.told)
        if side.settings is not None:
            told.update(side.settings.versions)
            if side.settings.world_size is not None:
                told["ranks"] = str(side.settings.world_size)
            told["command"] = " ".join(side.settings.command)
        sides.append(told)
    return find_version_changes(*sides)


def _finished(
    kind: str,
    answer: str,
    before: ComparisonSide,
    after: ComparisonSide,
    pairs: tuple[RankPair, ...],
    whole: RankPair | None,
    grew: tuple[StepPart, ...],
    shrank: tuple[StepPart, ...],
    changed: Sequence[Change],
    missing: tuple[NotChecked, ...],
) -> RunComparison:
    known = {times.rank for times in after.ranks if times.rank is not None}
    absent = tuple(rank for rank in range(min(after.world_size or 0, 1 << 20)) if rank not in known)
    summary, because = draw_conclusion(
        ConclusionInput(kind, answer, whole, grew, shrank, absent if known else (), len(changed))
    )
    every = dict.fromkeys((*before.unread, *after.unread))
    return RunComparison(
        kind,
        answer,
        summary,
        because,
        _side(before),
        _side(after),
        pairs,
        grew,
        shrank,
        tuple(changed),
        (*dict.fromkeys(before.missing + after.missing), *missing),
        tuple(every),
    )


def _side(side: ComparisonSide) -> SideSummary:
    kept = [times for times in side.ranks if len(times.step_s)]
    ranks = tuple(sorted(times.rank for times in side.ranks if times.rank is not None))
    return SideSummary(side.name, ranks, step_times(pool_ranks(kept)) if kept else None)


def align_places(before: RankTimes, after: RankTimes) -> tuple[RankTimes, RankTimes]:
    """``before`` with the places of ``after``, as far as a place of the same function answers to only one.

    A file that moved to another folder is the same file.
    """
    new = _by_function(after)
    old = _by_function(before)
    places: dict[Where, Where] = {}
    for function, wheres in old.items():
        there = new.get(function, set())
        gone, come = wheres - there, there - wheres
        if len(gone) == len(come) and there:
            order = (sorted(side, key=lambda where: (where.line or 0, where.file)) for side in (gone, come))
            places.update(zip(*order, strict=True))
    if not places:
        return before, after
    spent: dict[Activity, FloatColumn] = {}
    for activity, seconds in before.spent.items():
        where = places.get(activity.where, activity.where) if activity.where is not None else None
        moved = replace(activity, where=where)
        spent[moved] = spent[moved] + seconds if moved in spent else seconds
    return replace(before, spent=spent), after


def _by_function(times: RankTimes) -> dict[tuple[str, str], set[Where]]:
    found: dict[tuple[str, str], set[Where]] = defaultdict(set)
    for activity in times.spent:
        if activity.where is not None:
            name = activity.where.file.replace("\\", "/").rpartition("/")[2]
            found[name, activity.where.function].add(activity.where)
    return found
