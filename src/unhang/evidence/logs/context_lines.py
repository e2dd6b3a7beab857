"""Ordinary lines that are kept of a log: the last of everybody, those before the first trouble and those behind it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from operator import attrgetter

from unhang.evidence.items import LastLine
from unhang.evidence.logs.lines.prefixes import Speaker, SpokenLine

CONTEXT_LINES = 160
"""So many are kept before the first trouble, and so many behind it."""
_TEXT_CHARS = 2000
_TROUBLE = frozenset(("timeout", "oom", "gpu-fault", "killed", "nccl-error", "async-error", "store-timeout", "aborted"))
"""What a message says that ends the story of how the job went."""


class ContextLineKeeper:
    """Give it the ordinary lines of one log in order."""

    def __init__(self) -> None:
        self._last: dict[tuple[Speaker, int | None], SpokenLine] = {}
        self._broke_off: dict[Speaker, int] = {}
        self._latest: deque[SpokenLine] = deque(maxlen=CONTEXT_LINES)
        self._before: tuple[SpokenLine, ...] | None = None

    def take(self, said: SpokenLine) -> None:
        """Keep a line."""
        said.text = said.text[:_TEXT_CHARS]
        self._last[said.speaker, said.rank] = said
        self._latest.append(said)

    def note_stack_line(self, said: SpokenLine) -> None:
        """Note a line of an exception or a stack."""
        self._broke_off[said.speaker] = said.number

    def message(self, says: str, *, benign: bool) -> None:
        """A known message stands in the log here."""
        if self._before is None and says in _TROUBLE and not benign:
            self._before = tuple(self._latest)
            self._latest.clear()

    def last_lines(self, item: Callable[[SpokenLine, bool], LastLine]) -> tuple[LastLine, ...]:
        """The last line of every rank, in the order of the lines; ``item`` makes it of what was said,
        and of whether a stack stands behind it."""
        newest: dict[int | None, LastLine] = {}
        for said in sorted(self._last.values(), key=attrgetter("number")):
            told = item(said, self._broke_off.get(said.speaker, 0) > said.number)
            newest.pop(told.rank, None)
            newest[told.rank] = told
        return tuple(newest.values())

    def lines(self) -> Iterator[SpokenLine]:
        """Those before the first trouble and behind it, in order."""
        yield from self._before or ()
        yield from self._latest
