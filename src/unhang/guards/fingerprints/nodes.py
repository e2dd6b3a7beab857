"""A value as a tree of digests: equal content gives equal digests, and the first difference is found by descending.

Two ranks compare the digest of the root (16 bytes). Where it differs, they compare the parts of that node, then the
parts of the part that differs, down to a leaf: nobody ever sends the value itself.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

MAX_UNITS = 1024
"""Most positions of a long series that are read."""
_MIN_UNITS = 16
_SHOWN = 80
_BUNDLE = 256
_WIRE = 12

Limits = Mapping[str, int]
"""For each series that ran out of time somewhere: how many of its units every rank has read."""


class Node(Protocol):
    """One value, or one part of it. ``size`` is its length where it has one, ``shown`` what a person sees of it."""

    kind: str
    shown: str
    size: int | None

    def digest(self, limits: Limits) -> str:
        """Hexadecimal digest of everything compared under this node."""

    def parts(self, limits: Limits) -> list[tuple[str, str]] | None:
        """(label, digest) of each part; None for a leaf."""

    def child(self, label: str) -> Node:
        """The part called ``label``."""


def digest_of(pieces: Iterable[bytes]) -> str:
    """16 bytes over ``pieces``, each with its length, so that ``ab, c`` is not ``a, bc``."""
    hashed = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        hashed.update(len(piece).to_bytes(8, "little"))
        hashed.update(piece)
    return hashed.hexdigest()


def label_of(key: object) -> str:
    """``['key']`` for a place in a mapping; a long key keeps its beginning and a digest."""
    text = repr(key)
    return f"[{text}]" if len(text) <= _SHOWN else f"[{text[:60]}… {digest_of([text.encode('utf-8', 'replace')])[:8]}]"


def shorten(text: str) -> str:
    """``text`` on one line, at most 80 characters."""
    flat = " ".join(text[: 4 * _SHOWN].split())
    return flat if len(flat) <= _SHOWN else flat[: _SHOWN - 1] + "…"


@dataclass(slots=True)
class Leaf:
    """A value without parts; ``content`` is hashed with ``kind``."""

    kind: str
    shown: str
    hashed: str
    size: int | None = None

    @classmethod
    def of(cls, kind: str, content: bytes, shown: str = "", size: int | None = None) -> Leaf:
        """A leaf for ``content``."""
        return cls(kind, shorten(shown), digest_of((kind.encode(), content)), size)

    def digest(self, limits: Limits) -> str:  # noqa: ARG002
        """The digest of kind and content."""
        return self.hashed

    def parts(self, limits: Limits) -> None:  # noqa: ARG002
        """None: nothing to descend into."""
        return

    def child(self, label: str) -> Node:
        """Never asked for."""
        raise KeyError(label)


@dataclass(slots=True)
class Branch:
    """A value with named parts, all of them read. Many parts are shown in bundles, so that an outline stays small."""

    kind: str
    children: Mapping[str, Node]
    shown: str = ""
    size: int | None = None

    def digest(self, limits: Limits) -> str:
        """Over kind, size and every part."""
        pieces = [self.kind, str(self.size), *(p for part in self.parts(limits) for p in part)]
        return digest_of([piece.encode("utf-8", "surrogatepass") for piece in pieces])

    def parts(self, limits: Limits) -> list[tuple[str, str]]:
        """In the order of the value."""
        if len(self.children) <= _BUNDLE:
            return [(label, node.digest(limits)) for label, node in self.children.items()]
        return [(label, self.child(label).digest(limits)) for label in self._bundles()]

    def child(self, label: str) -> Node:
        """The part called ``label``, or one bundle of parts."""
        if label in self.children:
            return self.children[label]
        return self._bundles()[label]

    def _bundles(self) -> dict[str, Branch]:
        entries = list(self.children.items())
        step = max(_BUNDLE, -(-len(entries) // _BUNDLE))
        starts = range(0, len(entries), step)
        return {f"~{at}": Branch("parts", dict(entries[at : at + step])) for at in starts}


@dataclass(slots=True)
class Span:
    """A stretch of something long, ``hashed`` at once; its parts are made when a difference is looked for."""

    kind: str
    hashed: str
    cut: Callable[[], Mapping[str, Callable[[], Node]]]
    """What makes each part, by its label, in order."""
    shown: str = ""
    size: int | None = None

    def digest(self, limits: Limits) -> str:  # noqa: ARG002
        """Over the kind and the whole stretch."""
        return digest_of((self.kind.encode(), self.hashed.encode()))

    def parts(self, limits: Limits) -> list[tuple[str, str]]:
        """Shorter stretches, at last single values."""
        return [(label, made().digest(limits)) for label, made in self.cut().items()]

    def child(self, label: str) -> Node:
        """The part called ``label``."""
        return self.cut()[label]()


@dataclass(slots=True)
class SampledSeries:
    """A long value, read unit by unit in an order that covers it evenly, until the time for it is up.

    ``read(position)`` gives the node of one unit and is called again when a difference is looked for.
    """

    kind: str
    size: int | None
    path: str
    labels: Sequence[str]
    read: Callable[[int], Node]
    shown: str = ""
    digests: list[str] = field(default_factory=list)

    def read_units(self, until: float) -> bool:
        """Read units until ``until`` (monotonic seconds), at least a few; whether all were read."""
        for place in _spread(len(self.labels)):
            if len(self.digests) >= _MIN_UNITS and time.monotonic() > until:
                return False
            self.digests.append(self.read(place).digest({}))
        return True

    def digest(self, limits: Limits) -> str:
        """Over kind, size and the units that every rank has read."""
        compared = self.digests[: limits.get(self.path, len(self.digests))]
        return digest_of([self.kind.encode(), str(self.size).encode(), *(d.encode() for d in compared)])

    def parts(self, limits: Limits) -> list[tuple[str, str]]:
        """Units in the order of the value."""
        compared = self.digests[: limits.get(self.path, len(self.digests))]
        order = _spread(len(self.labels))[: len(compared)]
        return [(self.labels[place], digest) for place, digest in sorted(zip(order, compared, strict=True))]

    def child(self, label: str) -> Node:
        """The unit called ``label``, read again."""
        return self.read(self.labels.index(label))


def _spread(count: int) -> list[int]:
    """0 … count-1, first and last first, each prefix spread over the whole."""
    bits = max(1, (count - 1).bit_length())
    spread = sorted(range(count), key=lambda n: int(f"{n:0{bits}b}"[::-1], 2))
    return sorted(spread, key=lambda n: n not in (0, count - 1))


def positions(length: int) -> list[int]:
    """Up to 1,024 positions spread over ``length``, the first and the last among them."""
    if length <= MAX_UNITS:
        return list(range(length))
    return [step * (length - 1) // (MAX_UNITS - 1) for step in range(MAX_UNITS)]


@dataclass(slots=True)
class FingerprintBudget:
    """Limits of one fingerprint in time and bytes, and notes on what was left out."""

    series_s: float = 2.0
    total_s: float = 10.0
    bytes_left: int = 4 << 30
    """Bytes of tensors that are read whole; the rest is sampled."""
    cut: dict[str, int] = field(default_factory=dict)
    """Series that ran out of time: units read."""
    notes: dict[str, None] = field(default_factory=dict)
    """What was not compared, or only in part; one clause each, in order."""
    open_ids: list[int] = field(default_factory=list)
    nested: bool = False
    _began: float = field(default_factory=time.monotonic)

    def series(
        self, kind: str, size: int, path: str, labels: Sequence[str], read: Callable[[int], Node], *, covers: int = 1
    ) -> SampledSeries:
        """A series, read as far as time allows; a unit ``covers`` so many entries. Inside another one it is whole."""
        found = SampledSeries(kind, size, path, labels, read)
        outer, self.nested = self.nested, True
        try:
            now = time.monotonic()
            until = float("inf") if outer else min(now + self.series_s, self._began + self.total_s)
            complete = found.read_units(until)
        finally:
            self.nested = outer
        if not complete:
            self.cut[path] = len(found.digests)
        covered = len(found.digests) * covers
        if not outer and covered < size:
            self.note(f"{covered:,} of {size:,} entries{f' of {path}' if path else ''}")
        return found

    def note(self, clause: str) -> None:
        """Remember what was compared only in part; the first few are kept."""
        if len(self.notes) < 8:
            self.notes[clause] = None


def outline(node: Node, limits: Limits) -> dict[str, Any]:
    """What another rank needs to find the first difference at this node."""
    parts = node.parts(limits)
    short = None if parts is None else [(label, digest[:_WIRE]) for label, digest in parts]
    return {"kind": shorten(node.kind), "size": node.size, "shown": node.shown, "parts": short}
