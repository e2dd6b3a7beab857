"""The fast first pass: which lines of a block hold one of many literals.

Each literal is found by its rarest four bytes: a block is looked at as overlapping 32-bit words, hashed into a table
of flags with numpy, and only the few places that pass are compared with the literals themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

import numpy as np

_BITS = 18
_MULTIPLIER = np.uint32(2654435761)
_COMMON = b" etaoinsrlhdcumpfgEywbvNI0123456789.:,/_-=[]()TSARCLODkMPxjqz"

Tag = TypeVar("Tag")


def _rarity(gram: bytes) -> int:
    """Higher is rarer in logs: bytes late in the list of common ones."""
    return sum(_COMMON.find(byte) if byte in _COMMON else len(_COMMON) for byte in gram)


class AnchorFilter(Generic[Tag]):
    """Finds literals (each with a tag) in blocks of bytes."""

    def __init__(self, anchors: Iterable[tuple[bytes, Tag]]) -> None:
        self._by_gram: dict[bytes, list[tuple[int, bytes, Tag]]] = {}
        for anchor, tag in anchors:
            at = max(range(len(anchor) - 3), key=lambda start: _rarity(anchor[start : start + 4]))
            self._by_gram.setdefault(anchor[at : at + 4], []).append((at, anchor, tag))
        self._table = np.zeros(1 << _BITS, dtype=np.bool_)
        grams = np.array([int.from_bytes(gram, "little") for gram in self._by_gram], dtype=np.uint32)
        self._table[(grams * _MULTIPLIER) >> np.uint32(32 - _BITS)] = True

    def places(self, data: bytes) -> list[tuple[int, Tag]]:
        """(offset, tag) of every literal in ``data``, ordered by offset."""
        found: list[tuple[int, Tag]] = []
        for shift in range(4):
            count = (len(data) - shift) // 4
            if count <= 0:
                continue
            words = np.frombuffer(data, dtype="<u4", offset=shift, count=count)
            hashes = words * _MULTIPLIER
            hashes >>= np.uint32(32 - _BITS)
            for index in np.flatnonzero(self._table[hashes]).tolist():
                at = index * 4 + shift
                for offset, anchor, tag in self._by_gram.get(data[at : at + 4], ()):
                    if data.startswith(anchor, at - offset) and at >= offset:
                        found.append((at - offset, tag))
        found.sort(key=lambda place: place[0])
        return found
