"""Text of which parts are known only when it runs: such a part is a mark in the string, which remembers what stood
there, where, and why it is not known. So texts can be joined, split and compared as any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from unhang.findings import Source
from unhang.sentences import Text

_MARK = re.compile("\ue000(\\d+)\ue001")


@dataclass(frozen=True, slots=True)
class UnknownPart:
    """``text`` as it is written at ``source``; ``unset``: a variable that has no value here, which the shell drops."""

    text: str
    because: Text
    source: Source
    unset: bool = False


@dataclass(slots=True)
class UnknownParts:
    """Every mark that was made."""

    made: list[UnknownPart] = field(default_factory=list)

    def mark(self, text: str, because: Text, source: Source, *, unset: bool = False) -> str:
        """A text that stands for ``text``."""
        unknown = UnknownPart(self.as_written(text), because, source, unset)
        if unknown not in self.made:
            self.made.append(unknown)
        return f"\ue000{self.made.index(unknown)}\ue001"

    def inside(self, text: str) -> Iterator[UnknownPart]:
        """What is not known of ``text``."""
        return (self.made[int(number)] for number in _MARK.findall(text))

    def as_written(self, text: str) -> str:
        """``text`` with what stood where the marks are."""
        return _MARK.sub(lambda found: self.made[int(found[1])].text, text)

    def is_only_unset(self, text: str) -> bool:
        """Nothing but variables that have no value here."""
        return bool(text) and not _MARK.sub("", text) and all(part.unset for part in self.inside(text))


def is_known(text: str) -> bool:
    """No part of ``text`` is left to running."""
    return "\ue000" not in text


def without_marks(text: str) -> str:
    """Characters of ours out of a text that was read."""
    return text.replace("\ue000", "").replace("\ue001", "")


def with_marks_empty(text: str) -> str:
    """``text`` as the shell would have it where every mark is a variable without a value."""
    return _MARK.sub("", text)


def merge_lists(one: list[str], other: list[str], mark: str) -> list[str]:
    """What two branches agree on: what both begin and end with, and ``mark`` for the rest."""
    head = _alike(one, other)
    tail = _alike(one[head:][::-1], other[head:][::-1])
    return [*one[:head], mark, *one[len(one) - tail :]]


def _alike(one: list[str], other: list[str]) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
