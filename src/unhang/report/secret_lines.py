"""Find the few lines of a text that are worth a pattern: by literals, which are looked for much faster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

LONGEST = 1 << 14
"""Longer lines are cut: no pattern sees more at once."""


def lines_with(text: str, lowered: str, hints: Iterable[str]) -> Iterator[tuple[int, str]]:
    """(offset, line) of the lines of ``text`` that hold one of ``hints``; ``lowered``: the same in lower case."""
    seen: set[int] = set()
    for hint in hints:
        at = lowered.find(hint)
        while at >= 0:
            start, end = _line_around(text, at)
            if start not in seen:
                seen.add(start)
                yield start, text[start:end]
            at = lowered.find(hint, max(end, at + 1))


def _line_around(text: str, at: int) -> tuple[int, int]:
    """Start and end of the line at ``at``; of a long one the piece of it."""
    start, end = text.rfind("\n", max(0, at - LONGEST), at) + 1, text.find("\n", at, at + LONGEST)
    if start == 0 and at > LONGEST:
        start = at - at % LONGEST
    end = end if end >= 0 else min(len(text), at + LONGEST)
    return start, max(start, min(end, start + 2 * LONGEST))


def lower(text: str) -> str:
    """``text`` in lower case, letter for letter."""
    lowered = text.lower()
    return (
        lowered if len(lowered) == len(text) else "".join(low if len(low := one.lower()) == 1 else one for one in text)
    )
