"""A dump that lies elsewhere: its two ends are here, and what is between them is fetched when it is asked for."""

from __future__ import annotations

from collections.abc import Callable

_START_GROWTH, _END_GROWTH = 4, 2
"""How many times as long a side gets when it was too short, and by how much at least."""
_LEAST = 1 << 12


class RangedDump:
    """The bytes of a dump of ``size`` bytes that begins with ``start`` and ends with ``end``.

    ``fetch(first, stop)`` gives bytes from between; each is asked for once at most. What it raises is passed on.
    """

    def __init__(self, start: bytes, end: bytes, size: int, fetch: Callable[[int, int], bytes]) -> None:
        self._start = start
        self._end = end
        self._size = size
        self._fetch = fetch

    def __len__(self) -> int:
        return self._size

    @property
    def hole(self) -> tuple[int, int]:
        """The first byte that is missing and the one behind the last; the same when none is."""
        return len(self._start), self._size - len(self._end)

    def with_hole(self) -> bytes:
        """All bytes at their places, with zeros for those that are missing."""
        first, stop = self.hole
        return b"".join((self._start, bytes(stop - first), self._end))

    def fetch_more(self, *, of_start: bool) -> None:
        """Make the hole smaller from one side; once little is missing, or nothing helped, close it."""
        first, stop = self.hole
        longer = (_START_GROWTH - 1) * first if of_start else (_END_GROWTH - 1) * (self._size - stop)
        wanted = min(stop - first, max(longer, _LEAST))
        if 2 * (self._size - (stop - first) + wanted) > self._size:
            wanted = stop - first
        if of_start:
            self._start += self._fetch(first, first + wanted)
        else:
            self._end = self._fetch(stop - wanted, stop) + self._end

    def whole(self) -> bytes:
        """All bytes; what is missing is fetched."""
        first, stop = self.hole
        if first < stop:
            self._start += self._fetch(first, stop)
        return self._start + self._end


def all_of(dump: bytes | RangedDump) -> bytes:
    """All bytes of ``dump``."""
    return dump if isinstance(dump, bytes) else dump.whole()
