"""The same line of two versions of a program: lines move when somebody edits the file above them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from unhang.findings import Where
from unhang_compare.rank_times import Activity, RankTimes

if TYPE_CHECKING:
    from unhang_compare.rank_times import FloatColumn


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
