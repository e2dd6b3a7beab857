"""Where known literals stand in the blocks of one log: by plain search while little was read, which needs nothing
loaded; then by our own filter; by a compiled one when the log is large."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Generic

from unhang.evidence.logs.scan.literal_filters import LiteralSearch, PlainSearch, Tag, compile_filter

if TYPE_CHECKING:
    from unhang.evidence.logs.scan.literal_search import LiteralFilter

COMPILE_FROM = 8 << 20
"""Logs smaller than this are read before a compilation would have paid for itself."""
PLAIN_BYTES = 1 << 19
"""So much of all logs together is read before our own filter would have paid for itself."""


class Literals(Generic[Tag]):
    """The literals that are looked for, each with its tags, and what many logs share to look for them."""

    def __init__(self, anchors: Iterable[tuple[bytes, Tag]]) -> None:
        tags: dict[bytes, list[Tag]] = {}
        for anchor, tag in anchors:
            tags.setdefault(anchor, []).append(tag)
        self.anchors: list[tuple[bytes, tuple[Tag, ...]]] = [(anchor, tuple(of)) for anchor, of in tags.items()]
        self._plain_left = PLAIN_BYTES

    def plainly(self, data: bytes) -> bool:
        """Whether ``data`` is to be searched plainly."""
        self._plain_left -= len(data)
        return self._plain_left >= 0

    def fresh(self) -> LiteralFilter[Tag]:
        """Our own filter, for another log."""
        return self._untuned.fresh()

    @cached_property
    def _untuned(self) -> LiteralFilter[Tag]:
        from unhang.evidence.logs.scan.literal_search import LiteralFilter

        return LiteralFilter(self.anchors)


class LiteralFinder(Generic[Tag]):
    """Finds literals in the blocks of one log; ``compile_from`` bytes on with the fastest filter there is."""

    def __init__(self, literals: Literals[Tag], compile_from: int | None = None) -> None:
        self._literals = literals
        self._filter: LiteralSearch[Tag] = PlainSearch(literals.anchors)
        self._plain = True
        self._quiet: set[Tag] = set()
        self._left: int | None = COMPILE_FROM if compile_from is None else compile_from
        self.is_compiled = False
        """Whether the compiled filter is at work."""

    def quiet(self, tag: Tag) -> None:
        """From now on only the first place of a block matters for literals of ``tag``."""
        self._quiet.add(tag)
        self._filter.quiet(tag)

    def places(self, data: bytes) -> list[tuple[int, Tag]]:
        """(offset, tag) of every literal in ``data``, ordered by offset; of quiet ones the first."""
        if self._plain and not self._literals.plainly(data):
            self._plain = False
            self._change_to(self._literals.fresh())
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                self._left = None
                self._compile()
        return self._filter.places(data)

    def _compile(self) -> None:
        faster = compile_filter(self._literals.anchors)
        if faster is None:
            return
        self._change_to(faster)
        self.is_compiled, self._plain = True, False

    def _change_to(self, faster: LiteralSearch[Tag]) -> None:
        for tag in self._quiet:
            faster.quiet(tag)
        self._filter = faster
