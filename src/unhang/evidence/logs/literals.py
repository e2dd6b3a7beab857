"""Where known literals stand in the blocks of one log: our own filter first, a compiled one when the log is large."""

from __future__ import annotations

from typing import Generic

from unhang.evidence.logs.anchors import AnchorFilter, Tag
from unhang.evidence.logs.compiled_anchors import CompiledFilter, compiled

COMPILE_FROM = 8 << 20
"""Logs smaller than this are read before a compilation would have paid for itself."""


class LiteralFinder(Generic[Tag]):
    """Finds literals in the blocks of one log; ``compile_from`` bytes on with the fastest filter there is."""

    def __init__(self, untuned: AnchorFilter[Tag], compile_from: int | None = None) -> None:
        self._filter: AnchorFilter[Tag] | CompiledFilter[Tag] = untuned.fresh()
        self._anchors = untuned.anchors
        self._quiet: set[Tag] = set()
        self._left: int | None = COMPILE_FROM if compile_from is None else compile_from

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled filter is at work."""
        return isinstance(self._filter, CompiledFilter)

    def quiet(self, tag: Tag) -> None:
        """From now on only the first place of a block matters for literals of ``tag``."""
        self._quiet.add(tag)
        self._filter.quiet(tag)

    def places(self, data: bytes) -> list[tuple[int, Tag]]:
        """(offset, tag) of every literal in ``data``, ordered by offset; of quiet ones the first."""
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                self._left = None
                self._compile()
        return self._filter.places(data)

    def _compile(self) -> None:
        faster = compiled(self._anchors)
        if faster is None:
            return
        for tag in self._quiet:
            faster.quiet(tag)
        self._filter = faster
