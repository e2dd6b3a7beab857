"""The fast first pass: which lines of a block hold one of many literals.

Each literal is found by four of its bytes: a block is looked at as overlapping 32-bit words, hashed into a table of
flags with numpy, and only the few places that pass are compared with the literals themselves. Which four bytes is
decided by the log itself: those that its beginning holds least often.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

_BITS = 18
_MULTIPLIER = np.uint32(2654435761)
_SHIFT = np.uint32(32 - _BITS)
_COMMON = b" etaoinsrlhdcumpfgEywbvNI0123456789.:,/_-=[]()TSARCLODkMPxjqz"
_TUNE_FROM = 1 << 18
"""Blocks smaller than this are not worth tuning for."""
_TOO_MANY_PER_BYTE = 1 / 4096
"""More places than this that turn out to hold no literal: tune again."""

Tag = TypeVar("Tag")


def _rarity(gram: bytes) -> int:
    """Higher is rarer in logs: bytes late in the list of common ones."""
    return sum(_COMMON.find(byte) if byte in _COMMON else len(_COMMON) for byte in gram)


def _hashes(data: bytes, shift: int) -> npt.NDArray[np.uint32]:
    """Hashes of the 32-bit words of ``data`` at ``shift`` and every four bytes on."""
    count = (len(data) - shift) // 4
    if count <= 0:
        return np.zeros(0, dtype=np.uint32)
    words: npt.NDArray[np.uint32] = np.frombuffer(data, dtype="<u4", offset=shift, count=count)
    hashes: npt.NDArray[np.uint32] = words * _MULTIPLIER
    hashes >>= _SHIFT
    return hashes


class AnchorFilter(Generic[Tag]):
    """Finds literals (each with a tag) in blocks of bytes; one per log, because it tunes itself to it."""

    def __init__(self, anchors: Sequence[tuple[bytes, Tag]]) -> None:
        self._anchors = anchors
        self._by_gram: dict[bytes, list[tuple[int, bytes, Tag]]] = {}
        self._table = np.zeros(1 << _BITS, dtype=np.bool_)
        self._choose(None)
        self._tunings = 0

    def fresh(self) -> AnchorFilter[Tag]:
        """A filter for another log, as it was before any tuning; cheaper than a new one. Only for untuned filters."""
        other: AnchorFilter[Tag] = object.__new__(AnchorFilter)
        other._anchors, other._by_gram, other._tunings = self._anchors, self._by_gram, 0
        other._table = self._table.copy()
        return other

    def places(self, data: bytes) -> list[tuple[int, Tag]]:
        """(offset, tag) of every literal in ``data``, ordered by offset."""
        if self._tunings == 0 and len(data) >= _TUNE_FROM:
            self._tune(data)
        found: list[tuple[int, Tag]] = []
        missed = 0
        for shift in range(4):
            for index in np.flatnonzero(self._table[_hashes(data, shift)]).tolist():
                at = index * 4 + shift
                hit = False
                for offset, anchor, tag in self._by_gram.get(data[at : at + 4], ()):
                    if at >= offset and data.startswith(anchor, at - offset):
                        found.append((at - offset, tag))
                        hit = True
                missed += not hit
        if missed > len(data) * _TOO_MANY_PER_BYTE and self._tunings < 16 and len(data) >= _TUNE_FROM:
            self._tune(data)
        found.sort(key=lambda place: place[0])
        return found

    def _tune(self, data: bytes) -> None:
        counts = np.zeros(1 << _BITS, dtype=np.int64)
        for shift in range(4):
            counts += np.bincount(_hashes(data, shift), minlength=1 << _BITS)
        self._tunings += 1
        self._choose(counts)

    def _choose(self, counts: npt.NDArray[np.int64] | None) -> None:
        self._by_gram = {}
        for anchor, tag in self._anchors:
            grams = [anchor[start : start + 4] for start in range(len(anchor) - 3)]
            costs = [0] * len(grams)
            if counts is not None:
                words = np.array([int.from_bytes(gram, "little") for gram in grams], dtype=np.uint32)
                costs = counts[(words * _MULTIPLIER) >> _SHIFT].tolist()
            at = min(range(len(grams)), key=lambda start: (costs[start], -_rarity(grams[start])))
            self._by_gram.setdefault(grams[at], []).append((at, anchor, tag))
        grams_chosen = np.array([int.from_bytes(gram, "little") for gram in self._by_gram], dtype=np.uint32)
        self._table[:] = False
        self._table[(grams_chosen * _MULTIPLIER) >> _SHIFT] = True
