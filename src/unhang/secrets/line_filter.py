"""Find the few lines of a text that are worth a pattern: by literals, which are looked for much faster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

MAX_LINE = 1 << 14
"""Longer lines are cut: no pattern sees more at once."""
_WORTH_COMPILING = 1 << 16
"""A text of so many letters pays for the compiled search, where there is one."""


class HintedLines:
    """The lines of one text, by the literals (in lower case) that they hold. ``hints``: all that will be asked for."""

    def __init__(self, text: str, hints: Iterable[str]) -> None:
        self._text = text
        self._lowered = in_lower_case(text)
        self._places = literal_offsets(self._lowered, tuple(hints)) if len(text) >= _WORTH_COMPILING else None

    def with_any(self, hints: Iterable[str]) -> Iterator[tuple[int, str]]:
        """(offset, line) of the lines that hold one of ``hints``."""
        seen: set[int] = set()
        for hint in hints:
            end = 0
            for at in self._places.get(hint, ()) if self._places is not None else _found(self._lowered, hint):
                if at < end:
                    continue
                start, end = _line_around(self._text, at)
                if start not in seen:
                    seen.add(start)
                    yield start, self._text[start:end]


def _line_around(text: str, at: int) -> tuple[int, int]:
    """Start and end of the line at ``at``; of a long one the piece of it."""
    start, end = text.rfind("\n", max(0, at - MAX_LINE), at) + 1, text.find("\n", at, at + MAX_LINE)
    if start == 0 and at > MAX_LINE:
        start = at - at % MAX_LINE
    end = end if end >= 0 else min(len(text), at + MAX_LINE)
    return start, max(start, min(end, start + 2 * MAX_LINE))


def in_lower_case(text: str) -> str:
    """``text`` in lower case, letter for letter."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)


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
            places[hint] = list(_found(lowered, hint))
    return places


def _found(lowered: str, hint: str) -> Iterator[int]:
    at = lowered.find(hint)
    while at >= 0:
        yield at
        at = lowered.find(hint, at + 1)


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
