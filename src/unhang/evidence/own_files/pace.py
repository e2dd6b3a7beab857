"""Read ``machine/pace.json``: how fast a job that moves went, and what its ranks did meanwhile, as a watcher saw it.

A file like any other: every value is checked, and one that cannot be right makes the whole file unread.
"""

from __future__ import annotations

import math

import msgspec

from unhang.evidence.items import Frame
from unhang.evidence.own_files.run_items import Pace, PacePlace, RankPace
from unhang.findings import Source, Unread
from unhang.wire.documents.document import DECODE_ERRORS

SCHEMA = "unhang.pace/1"
MAX_RANKS, MAX_STEPS, MAX_PLACES, MAX_FRAMES, MAX_TEXT = 1_024, 4_096, 64, 64, 4_096


class _Place(msgspec.Struct, frozen=True):
    share: float
    phase: str = "other"
    frames: tuple[tuple[str, int, str], ...] = ()


class _Rank(msgspec.Struct, frozen=True):
    rank: int
    steps: tuple[tuple[int, float], ...] = ()
    waits: float = 0.0
    places: tuple[_Place, ...] = ()


class _Pace(msgspec.Struct, frozen=True):
    schema: str
    looks: int = 0
    ranks: tuple[_Rank, ...] = ()


def read_pace(raw: bytes, *, source: Source) -> Pace | Unread:
    """What the watcher wrote, or why it cannot be believed."""
    try:
        found = msgspec.json.decode(raw, type=_Pace)
    except DECODE_ERRORS as error:
        return Unread(source, f"is not a record of a job's pace: {str(error)[:200]}")
    problem = _problem(found)
    if problem:
        return Unread(source, f"is a record of a job's pace that cannot be right: {problem}")
    return Pace(source, found.looks, tuple(_rank(rank) for rank in found.ranks))


def _rank(rank: _Rank) -> RankPace:
    return RankPace(rank.rank, rank.steps, rank.waits, tuple(_place(place) for place in rank.places))


def _place(place: _Place) -> PacePlace:
    frames = tuple(Frame(function, file, line or None) for file, line, function in place.frames)
    return PacePlace(place.phase, place.share, frames)


def _problem(pace: _Pace) -> str:
    """The first thing that cannot be right, or an empty text."""
    if pace.schema != SCHEMA:
        return f"its schema is {pace.schema[:60]!r}, not {SCHEMA!r}"
    ranks = [rank.rank for rank in pace.ranks]
    if len(ranks) > MAX_RANKS or len(set(ranks)) != len(ranks) or any(rank < 0 for rank in ranks):
        return "its ranks"
    if pace.looks < 0 or any(not _is_share(share) for rank in pace.ranks for share in _shares(rank)):
        return "a share outside 0 to 1"
    if any(len(rank.steps) > MAX_STEPS or not _in_order(rank.steps) for rank in pace.ranks):
        return "steps out of order, or a time that is none"
    places = [place for rank in pace.ranks for place in rank.places]
    texts = (text for place in places for file, _, function in place.frames for text in (file, function))
    if any(len(p.frames) > MAX_FRAMES or any(line < 0 for _, line, _ in p.frames) for p in places) or any(
        len(text) > MAX_TEXT or not text.isprintable() for text in texts
    ):
        return "a place without end, or with control characters"
    return "too many places" if any(len(rank.places) > MAX_PLACES for rank in pace.ranks) else ""


def _shares(rank: _Rank) -> tuple[float, ...]:
    return (rank.waits, *(place.share for place in rank.places))


def _is_share(share: float) -> bool:
    return math.isfinite(share) and 0 <= share <= 1


def _in_order(steps: tuple[tuple[int, float], ...]) -> bool:
    numbers = [step for step, _ in steps]
    return numbers == sorted(numbers) and all(math.isfinite(s) and 0 <= s < 1e9 for _, s in steps)
