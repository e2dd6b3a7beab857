"""What a search for literals gives: by plain search, which needs nothing loaded, or by a compiled filter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any, Generic, TypeVar

_WORTH_COMPILING = 100_000
"""So many places of quiet literals cost as much to throw away as a new compilation that no longer gives them."""

Tag = TypeVar("Tag")


class LiteralSearch(ABC, Generic[Tag]):
    """Finds literals, each with its tags, in the blocks of one log."""

    def __init__(self, anchors: Sequence[tuple[bytes, tuple[Tag, ...]]]) -> None:
        self.anchors = anchors
        self._quiet: set[Tag] = set()
        self._once: set[int] = set()
        """Numbers of the literals of which only the first place of a block matters."""

    def quiet(self, tag: Tag) -> None:
        """From now on only the first place of a block matters for literals of ``tag``."""
        if tag in self._quiet:
            return
        self._quiet.add(tag)
        self._once.update(number for number, (_, tags) in enumerate(self.anchors) if self._quiet.issuperset(tags))

    def places(self, data: bytes) -> list[tuple[int, Tag]]:
        """(offset, tag) of every literal in ``data``, ordered by offset; of quiet ones the first."""
        found = self._found(data)
        if self._once:
            found = self._thinned(found)
        anchors = self.anchors
        return [(at, tag) for at, number in found for tag in anchors[number][1]]

    @abstractmethod
    def _found(self, data: bytes) -> list[tuple[int, int]]:
        """(offset, number of the literal) in order; of quiet ones perhaps more than the first."""

    def _thinned(self, found: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """``found`` without what is not the first of a quiet literal."""
        seen: set[int] = set()
        kept: list[tuple[int, int]] = []
        for place in found:
            number = place[1]
            if number in self._once:
                if number in seen:
                    continue
                seen.add(number)
            kept.append(place)
        return kept


class PlainSearch(LiteralSearch[Tag]):
    """Looks for one literal after the other."""

    def _found(self, data: bytes) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for number, (anchor, _) in enumerate(self.anchors):
            at = data.find(anchor)
            while at >= 0:
                found.append((at, number))
                at = -1 if number in self._once else data.find(anchor, at + 1)
        return sorted(found)


class HyperscanFilter(LiteralSearch[Tag]):
    """Finds the same places with hyperscan, where it is installed: twice to four times as fast as our own filter.

    Only literals are given to it, never a pattern. It is compiled once a process, for logs large enough to pay for
    that. One per log.
    """

    def __init__(self, hyperscan: ModuleType, anchors: Sequence[tuple[bytes, tuple[Tag, ...]]]) -> None:
        super().__init__(anchors)
        self._hyperscan = hyperscan
        self._literals = tuple(anchor for anchor, _ in anchors)
        self._thrown_away = 0
        self._compile(frozenset())

    def _found(self, data: bytes) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        add = found.append

        def take(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            add((end, number))

        self._database.scan(data, match_event_handler=take, scratch=self._scratch)
        if len(self._compiled_once) < len(self._once):
            found = self._thinned(found)
        literals = self._literals
        return sorted([(end - len(literals[number]), number) for end, number in found])

    def _thinned(self, found: list[tuple[int, int]]) -> list[tuple[int, int]]:
        kept = super()._thinned(found)
        self._thrown_away += len(found) - len(kept)
        if self._thrown_away > _WORTH_COMPILING:
            self._compile(frozenset(self._once))
        return kept

    def _compile(self, once: frozenset[int]) -> None:
        self._compiled_once = once
        self._thrown_away = 0
        self._database: Any = _untuned(self._literals) if not once else _database(self._literals, once)
        self._scratch: Any = self._hyperscan.Scratch(self._database)


def compile_filter(anchors: Sequence[tuple[bytes, tuple[Tag, ...]]]) -> HyperscanFilter[Tag] | None:
    """A filter for one log; None where hyperscan is not installed or does not run on this machine."""
    hyperscan = _hyperscan()
    if hyperscan is None:
        return None
    try:
        return HyperscanFilter(hyperscan, anchors)
    except hyperscan.error:
        return None


@cache
def _hyperscan() -> ModuleType | None:
    try:
        import hyperscan
    except ImportError:
        return None
    return hyperscan


@cache
def _untuned(literals: tuple[bytes, ...]) -> Any:
    return _database(literals, frozenset())


def _database(literals: tuple[bytes, ...], once: frozenset[int]) -> Any:
    """``literals`` compiled; those of the numbers in ``once`` are told of once a block."""
    hyperscan = _hyperscan()
    assert hyperscan is not None
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=literals,
        ids=range(len(literals)),
        elements=len(literals),
        flags=[hyperscan.HS_FLAG_SINGLEMATCH if number in once else 0 for number in range(len(literals))],
        literal=True,
    )
    return database
