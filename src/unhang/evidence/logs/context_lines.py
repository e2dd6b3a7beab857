"""Ordinary lines that are kept of a log: the last of everybody, those before the first trouble and those behind it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from unhang.evidence.logs.lines.prefixes import Speaker

CONTEXT_LINES = 160
"""So many are kept before the first trouble, and so many behind it."""
_TEXT_CHARS = 2000
_TROUBLE = frozenset(("timeout", "oom", "gpu-fault", "killed", "nccl-error", "async-error", "store-timeout", "aborted"))
"""What a message says that ends the story of how the job went."""


@dataclass(slots=True)
class ContextLine:
    """An ordinary line before its rank is known; ``rank`` is the one it names itself."""

    speaker: Speaker
    rank: int | None
    text: str
    line: int
    dated: str


class ContextLineKeeper:
    """Give it the ordinary lines of one log in order."""

    def __init__(self) -> None:
        self._last: dict[tuple[Speaker, int | None], ContextLine] = {}
        self._broke_off: dict[Speaker, int] = {}
        self._latest: deque[ContextLine] = deque(maxlen=CONTEXT_LINES)
        self._before: tuple[ContextLine, ...] | None = None

    def take(self, speaker: Speaker, rank: int | None, text: str, line: int, dated: str) -> None:
        """Keep a line."""
        told = self._last[speaker, rank] = ContextLine(speaker, rank, text[:_TEXT_CHARS], line, dated)
        self._latest.append(told)

    def note_stack_line(self, speaker: Speaker, line: int) -> None:
        """Note that ``speaker`` printed a line of an exception or a stack at ``line``."""
        self._broke_off[speaker] = line

    def is_followed(self, told: ContextLine) -> bool:
        """Whether its speaker printed an exception or a stack behind it."""
        return self._broke_off.get(told.speaker, 0) > told.line

    def message(self, says: str, *, benign: bool) -> None:
        """A known message stands in the log here."""
        if self._before is None and says in _TROUBLE and not benign:
            self._before = tuple(self._latest)
            self._latest.clear()

    def last_of_everybody(self) -> Iterator[ContextLine]:
        """The last line of each speaker."""
        return iter(self._last.values())

    def lines(self) -> Iterator[ContextLine]:
        """Those before the first trouble and behind it, in order."""
        yield from self._before or ()
        yield from self._latest
