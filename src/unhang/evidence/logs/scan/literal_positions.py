"""Where known literals stand in the blocks of one log: by plain search while little was read, which needs nothing
loaded; then by our own filter; by a compiled one when the log is large."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from unhang.evidence.logs.scan.literal_search import LiteralFilter

COMPILE_FROM = 8 << 20
"""Logs smaller than this are read before a compilation would have paid for itself."""
PLAIN_BYTES = 1 << 19
"""So much of all logs together is read before our own filter would have paid for itself."""
_WORTH_COMPILING = 100_000
"""So many places of quiet literals cost as much to throw away as a new compilation that no longer gives them."""

Tag = TypeVar("Tag")


class PlainSearch(Generic[Tag]):
    """Looks for one literal after the other."""

    def __init__(self, anchors: list[tuple[bytes, tuple[Tag, ...]]]) -> None:
        self._anchors = anchors
        self._quiet: set[Tag] = set()

    def quiet(self, tag: Tag) -> None:
        """From now on only the first place of a block matters for literals of ``tag``."""
        self._quiet.add(tag)

    def places(self, data: bytes) -> list[tuple[int, Tag]]:
        """(offset, tag) of every literal in ``data``, ordered by offset; of quiet ones the first."""
        found: list[tuple[int, int]] = []
        for number, (anchor, tags) in enumerate(self._anchors):
            at = data.find(anchor)
            if at >= 0 and self._quiet.issuperset(tags):
                found.append((at, number))
                continue
            while at >= 0:
                found.append((at, number))
                at = data.find(anchor, at + 1)
        found.sort()
        return [(at, tag) for at, number in found for tag in self._anchors[number][1]]


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


class HyperscanFilter(Generic[Tag]):
    """Finds the same places with hyperscan, where it is installed: twice to four times as fast as our own filter.

    Only literals are given to it, never a pattern. It is compiled once a process, for logs large enough to pay for
    that. One per log.
    """

    def __init__(self, hyperscan: ModuleType, anchors: Sequence[tuple[bytes, tuple[Tag, ...]]]) -> None:
        self._hyperscan = hyperscan
        self._anchors = anchors
        self._literals = tuple(anchor for anchor, _ in anchors)
        self._quiet: set[Tag] = set()
        self._once: set[int] = set()
        """Numbers of the literals of which only the first place of a block matters."""
        self._thrown_away = 0
        self._compile(frozenset())

    def quiet(self, tag: Tag) -> None:
        """From now on only the first place of a block matters for literals of ``tag``."""
        if tag in self._quiet:
            return
        self._quiet.add(tag)
        self._once.update(number for number, (_, tags) in enumerate(self._anchors) if self._quiet.issuperset(tags))

    def places(self, data: bytes) -> list[tuple[int, Tag]]:
        """(offset, tag) of every literal in ``data``, ordered by offset; of quiet ones the first."""
        found: list[tuple[int, int]] = []
        add = found.append

        def take(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            add((end, number))

        self._database.scan(data, match_event_handler=take, scratch=self._scratch)
        if len(self._compiled_once) < len(self._once):
            found = self._thinned(found)
        literals, anchors = self._literals, self._anchors
        starts = sorted((end - len(literals[number]), number) for end, number in found)
        return [(start, tag) for start, number in starts for tag in anchors[number][1]]

    def _thinned(self, found: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """``found`` without what is not the first of a literal that became quiet after it was compiled."""
        seen: set[int] = set()
        kept: list[tuple[int, int]] = []
        for place in found:
            number = place[1]
            if number in self._once:
                if number in seen:
                    continue
                seen.add(number)
            kept.append(place)
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


class LiteralFinder(Generic[Tag]):
    """Finds literals in the blocks of one log; ``compile_from`` bytes on with the fastest filter there is."""

    def __init__(self, literals: Literals[Tag], compile_from: int | None = None) -> None:
        self._literals = literals
        self._filter: PlainSearch[Tag] | LiteralFilter[Tag] | HyperscanFilter[Tag] = PlainSearch(literals.anchors)
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

    def _change_to(self, faster: LiteralFilter[Tag] | HyperscanFilter[Tag]) -> None:
        for tag in self._quiet:
            faster.quiet(tag)
        self._filter = faster
