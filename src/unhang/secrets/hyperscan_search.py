"""Where literals stand in a long text, with hyperscan where it is installed: one pass for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any


def literal_offsets(lowered: str, hints: tuple[str, ...]) -> Mapping[str, list[int]] | None:
    """The offsets of each of ``hints`` in ``lowered``; None where hyperscan is not installed or does not run."""
    search = _search(hints)
    if search is None:
        return None
    places: dict[str, list[int]] = {hint: [] for hint in hints}

    def take(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
        places[hints[number]].append(end - len(hints[number]))

    database, scratch = search
    database.scan(lowered.encode("latin-1", "replace"), match_event_handler=take, scratch=scratch)  # a byte a letter
    for hint in hints if not lowered.isascii() else ():
        if not hint.isascii():
            places[hint] = _found(lowered, hint)
    return places


def _found(lowered: str, hint: str) -> list[int]:
    found, at = [], lowered.find(hint)
    while at >= 0:
        found.append(at)
        at = lowered.find(hint, at + 1)
    return found


@cache
def _search(hints: tuple[str, ...]) -> tuple[Any, Any] | None:
    try:
        import hyperscan
    except ImportError:
        return None
    numbers = [number for number, hint in enumerate(hints) if hint.isascii()]
    literals = tuple(hints[number].encode() for number in numbers)
    try:
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        database.compile(
            expressions=literals, ids=numbers, elements=len(literals), flags=[0] * len(literals), literal=True
        )
        return database, hyperscan.Scratch(database)
    except hyperscan.error:
        return None
