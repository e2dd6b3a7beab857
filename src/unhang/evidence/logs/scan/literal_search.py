"""The fast first pass: where in a block of bytes one of many literals stands.

A block is looked at as 32-bit words at multiples of four bytes. A literal of seven bytes or more fills one of them
wherever it stands, so four words stand for it, one for each way it can lie; a literal of five or six leaves one byte
of such a word open, and all words with that byte count. The words are hashed into a table of flags with numpy, and
only the few places that pass are compared with the literals themselves. Which words stand for a literal is decided
by the log itself: those that it holds least often. A second hash keeps out common words that share a flag with one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unhang.evidence.logs.scan.literal_filters import LiteralSearch, Tag

_BITS = 18
_BUCKETS = 1 << _BITS
_MULTIPLIER = np.uint32(2654435761)
_SHIFT = np.uint32(32 - _BITS)
_SECOND_MULTIPLIER, _SECOND_SHIFT = np.uint32(2246822519), np.uint32(12)
_COMMON = b" etaoinsrlhdcumpfgEywbvNI0123456789.:,/_-=[]()TSARCLODkMPxjqz"
_ANY_BYTE = bytes(range(256))
"""What may stand beside a literal of five or six bytes: a letter of any alphabet, in any encoding, or a NUL."""
SHORTEST = 5
_PAD = b"\n" * 8
_TUNE_FROM = 1 << 18
"""Blocks smaller than this are not worth tuning for."""
_TOO_MANY_PER_BYTE = 1 / 8192
"""More places than this that turn out to hold no literal: tune again."""
_MAX_BLOCKS_UNTUNED = 32
"""Blocks between two tunings: some places are missed however the words are chosen."""
_TUNE_WORDS = 1 << 16

_QUIET_PLACES = 2
"""So many places are looked at one by one for each word of a quiet literal; the others only if these hold none."""

_Indices = npt.NDArray[np.intp]
_Words = npt.NDArray[np.uint32]


def _rarity(word: bytes) -> int:
    """Higher is rarer in logs: bytes late in the list of common ones."""
    return sum(_COMMON.find(byte) if byte in _COMMON else len(_COMMON) for byte in word)


def _words_of(anchor: bytes) -> Iterator[tuple[int, int, list[bytes]]]:
    """(way it can lie, offset of the word in the anchor, the words) for everything that may stand for ``anchor``."""
    length = len(anchor)
    for offset in range(length - 3):
        yield offset % 4, offset, [anchor[offset : offset + 4]]
    if length < 7:
        yield 3, -1, [bytes((byte,)) + anchor[:3] for byte in _ANY_BYTE]
        yield (length - 3) % 4, length - 3, [anchor[-3:] + bytes((byte,)) for byte in _ANY_BYTE]


def _number(word: bytes) -> int:
    return int.from_bytes(word, "little")


def _bucket(number: int) -> int:
    return (number * int(_MULTIPLIER) & 0xFFFFFFFF) >> int(_SHIFT)


class _Choices:
    """Every word that may stand for an anchor, in columns; the same for all logs."""

    def __init__(self, anchors: Sequence[bytes]) -> None:
        self.groups: list[tuple[int, int, list[int]]] = []
        """(number of the anchor, offset of the word in it, the words)."""
        self._starts: list[int] = []
        rarities: list[int] = []
        for number, anchor in enumerate(anchors):
            if len(anchor) < SHORTEST:
                raise ValueError(f"a literal of fewer than {SHORTEST} bytes cannot be looked for: {anchor!r}")
            ways: dict[int, list[tuple[int, list[bytes]]]] = {way: [] for way in range(4)}
            for way, offset, words in _words_of(anchor):
                ways[way].append((offset, words))
            for choices in ways.values():
                self._starts.append(len(self.groups))
                self.groups.extend((number, offset, [_number(word) for word in words]) for offset, words in choices)
                rarities.extend(min(map(_rarity, words)) for _, words in choices)
        sizes = [len(words) for _, _, words in self.groups]
        self._words = np.array([word for _, _, words in self.groups for word in words], dtype=np.uint32)
        self._firsts = np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.intp)
        self._rarity = np.array(rarities, dtype=np.int64)

    def costs(self, words: _Words) -> npt.NDArray[np.int64]:
        """How often each choice stands in ``words``."""
        known, counts = np.unique(words, return_counts=True)
        at = np.minimum(np.searchsorted(known, self._words), len(known) - 1)
        found: npt.NDArray[np.int64] = np.where(known[at] == self._words, counts[at], 0)
        return np.add.reduceat(found, self._firsts)

    def best(self, costs: npt.NDArray[np.int64] | None) -> list[int]:
        """One choice for every way an anchor can lie: seen least often, or else the rarest in logs at large."""
        keys = -self._rarity if costs is None else costs * 4096 - self._rarity
        ends = [*self._starts[1:], len(self.groups)]
        return [start + int(keys[start:end].argmin()) for start, end in zip(self._starts, ends, strict=True)]


class LiteralFilter(LiteralSearch[Tag]):
    """Finds literals (each with its tags) in blocks of bytes; one per log, because it tunes itself to it."""

    def __init__(self, anchors: Sequence[tuple[bytes, tuple[Tag, ...]]]) -> None:
        super().__init__(anchors)
        self._choices = _Choices([anchor for anchor, _ in anchors])
        self._buckets: dict[int, list[tuple[int, bytes, int]]] = {}
        self._table = self._second = np.zeros(_BUCKETS, dtype=np.bool_)
        self._prepare()
        self._choose(None)

    def _prepare(self) -> None:
        self._tunings = 0
        self._rest = 0
        self._costs: npt.NDArray[np.int64] | None = None
        self._limited_buckets: npt.NDArray[np.bool_] | None = None
        self._limited_literals = 0
        self._hashes: Any = np.empty(0, dtype=np.intp)
        self._flags: Any = np.empty(0, dtype=np.bool_)

    def fresh(self) -> LiteralFilter[Tag]:
        """A filter for another log, as it was before any tuning; cheaper than a new one. Only for untuned filters."""
        other: LiteralFilter[Tag] = object.__new__(LiteralFilter)
        LiteralSearch.__init__(other, self.anchors)
        other._choices, other._buckets = self._choices, self._buckets
        other._table, other._second = self._table, self._second
        other._checked, other._check, other._check_at = self._checked, self._check, self._check_at
        other._prepare()
        return other

    def _found(self, data: bytes) -> list[tuple[int, int]]:
        words, hashes = self._hashed(data)
        if self._tunings == 0 and len(data) >= _TUNE_FROM:
            self._tune(words)
        flags = self._flags[: len(hashes)]
        np.take(self._table, hashes, out=flags, mode="clip")
        hits: _Indices = np.flatnonzero(flags)
        if len(hits):
            hits = hits[self._second[(words[hits] * _SECOND_MULTIPLIER) >> _SECOND_SHIFT]]
            hits = self._with_second_word(data, hits, hashes)
        if self._limited_literals < len(self._once):  # not at once: many become quiet within one block
            self._set_limits()
        held = hits[:0]
        if self._limited_buckets is not None and len(hits):
            hits, held = self._limited(hits, hashes)
        found, missed = self._compared(data, hits, hashes)
        if len(held):
            found += list(self._first_of_held(data, held, hashes, found))
        self._rest -= 1
        if self._rest <= 0 and missed > len(data) * _TOO_MANY_PER_BYTE and len(data) >= _TUNE_FROM:
            self._tune(words)
        return sorted(found)

    def _hashed(self, data: bytes) -> tuple[_Words, _Indices]:
        """The words of ``data`` and their hashes; the array of these is used again for the next block."""
        # a literal of seven bytes or more fills a word of the data itself, a shorter one with the line end behind it
        padded = data if data.endswith(b"\n") and len(data) >= len(_PAD) else data + _PAD
        count = len(padded) // 4
        if len(self._hashes) < count:
            self._hashes = np.empty(count, dtype=np.intp)
            self._flags = np.empty(count, dtype=np.bool_)
        words: _Words = np.frombuffer(padded, dtype="<u4", count=count)
        mixed: _Words = words * _MULTIPLIER
        mixed >>= _SHIFT
        hashes: _Indices = self._hashes[:count]
        hashes[:] = mixed
        return words, hashes

    def _compared(self, data: bytes, hits: _Indices, hashes: _Indices) -> tuple[list[tuple[int, int]], int]:
        """(offset, number) of the literals that stand at ``hits``, and how many hits hold none."""
        found: list[tuple[int, int]] = []
        missed = 0
        buckets = self._buckets
        for index, bucket in zip(hits.tolist(), hashes[hits].tolist(), strict=True):
            before = len(found)
            for offset, anchor, number in buckets[bucket]:
                at = index * 4 - offset
                if at >= 0 and data.startswith(anchor, at):
                    found.append((at, number))
            missed += len(found) == before
        return found, missed

    def _with_second_word(self, data: bytes, hits: _Indices, hashes: _Indices) -> _Indices:
        """``hits`` without those whose literal has another word that does not stand where it should."""
        buckets = hashes[hits]
        at = hits * 4 + self._check_at[buckets]
        inside = (at >= 0) & (at + 4 <= len(data))
        at[~inside] = 0
        letters = np.frombuffer(data, dtype=np.uint8)
        word = letters[at].astype(np.uint32)
        for more in range(1, 4):
            word |= letters[np.minimum(at + more, len(data) - 1)].astype(np.uint32) << np.uint32(8 * more)
        kept: _Indices = hits[~self._checked[buckets] | (inside & (word == self._check[buckets]))]
        return kept

    def _first_of_held(
        self, data: bytes, held: _Indices, hashes: _Indices, found: list[tuple[int, int]]
    ) -> Iterator[tuple[int, int]]:
        """The first place of each literal of which the first places of its word held none."""
        firsts: dict[tuple[int, int], int] = {}
        for place, number in found:
            way = number, place % 4
            firsts[way] = min(place, firsts.get(way, place))
        letters, buckets = np.frombuffer(data, dtype=np.uint8), hashes[held]
        for bucket in np.unique(buckets).tolist():
            starts = held[buckets == bucket] * 4
            for offset, anchor, number in self._buckets[bucket]:
                if firsts.get((number, -offset % 4), len(data)) < int(starts[0]) - offset:
                    continue
                for place in _may_hold(letters, starts - offset, anchor).tolist():
                    if data.startswith(anchor, place):
                        yield place, number
                        break

    def _limited(self, hits: _Indices, hashes: _Indices) -> tuple[_Indices, _Indices]:
        """``hits`` without those of quiet words beyond the first few of each, and those."""
        assert self._limited_buckets is not None
        buckets = hashes[hits]
        (quiet,) = np.nonzero(self._limited_buckets[buckets])
        if not len(quiet):
            return hits, hits[:0]
        order = quiet[np.argsort(buckets[quiet], kind="stable")]
        of_bucket = buckets[order]
        firsts = np.flatnonzero(np.concatenate(([True], of_bucket[1:] != of_bucket[:-1])))
        sizes = np.diff(np.append(firsts, len(order)))
        number = np.arange(len(order)) - np.repeat(firsts, sizes)
        beyond = np.sort(order[number >= _QUIET_PLACES])
        return np.delete(hits, beyond), hits[beyond]

    def _tune(self, words: _Words) -> None:
        costs = self._choices.costs(words[:_TUNE_WORDS])
        self._costs = costs if self._costs is None else self._costs // 2 + costs
        self._tunings += 1
        self._rest = min(1 << self._tunings, _MAX_BLOCKS_UNTUNED)
        self._choose(self._costs)

    def _choose(self, costs: npt.NDArray[np.int64] | None) -> None:
        self._buckets = {}
        chosen: list[int] = []
        for choice in self._choices.best(costs):
            number, offset, words = self._choices.groups[choice]
            anchor = self.anchors[number][0]
            chosen.extend(words)
            for word in words:
                self._buckets.setdefault(_bucket(word), []).append((offset, anchor, number))
        self._table = np.zeros(_BUCKETS, dtype=np.bool_)
        self._table[list(self._buckets)] = True
        self._second = np.zeros(1 << 20, dtype=np.bool_)
        self._second[(np.array(chosen, dtype=np.uint32) * _SECOND_MULTIPLIER) >> _SECOND_SHIFT] = True
        self._set_checks()
        self._set_limits()

    def _set_checks(self) -> None:
        """A second word for every flag that stands for one literal only: the one farthest from the first."""
        self._checked = np.zeros(_BUCKETS, dtype=np.bool_)
        self._check = np.zeros(_BUCKETS, dtype=np.uint32)
        self._check_at = np.zeros(_BUCKETS, dtype=np.intp)
        for bucket, entries in self._buckets.items():
            if len(entries) > 1:
                continue
            offset, anchor, _ = entries[0]
            last = len(anchor) - 4
            other = 0 if offset > last - offset else last
            self._checked[bucket] = True
            self._check[bucket] = _number(anchor[other : other + 4])
            self._check_at[bucket] = other - offset

    def _set_limits(self) -> None:
        """A word is quiet when all literals it stands for are."""
        self._limited_literals = len(self._once)
        if not self._once:
            return
        self._limited_buckets = np.zeros(_BUCKETS, dtype=np.bool_)
        for bucket, entries in self._buckets.items():
            self._limited_buckets[bucket] = all(number in self._once for _, _, number in entries)


def _may_hold(letters: npt.NDArray[np.uint8], places: _Indices, anchor: bytes) -> _Indices:
    """Those of ``places`` at which the beginning and the end of ``anchor`` stand."""
    inside = places[(places >= 0) & (places + len(anchor) <= len(letters))]
    for at in (0, 1, len(anchor) - 2, len(anchor) - 1):
        inside = inside[letters[inside + at] == anchor[at]]
    return inside
