"""Calls that wait to be made, in order and within bounds."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any


@dataclass(slots=True)
class QueuedCall:
    """One call. ``key``: calls of one key are values of one curve."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    key: Hashable
    held: int
    """About how many bytes."""
    at_ns: int
    number: int = 0
    """In the order in which they were put, from 1."""
    gone: bool = False
    """Left out."""


class CallQueue:
    """Put by the program, taken by the writer's thread. ``max_calls``, ``max_bytes``: what may wait at most.

    When that is reached, every second of the waiting values of each curve is left out, and again as long as it helps;
    the newest of each stays. Where there is nothing to thin out, the oldest goes.
    """

    def __init__(self, max_calls: int, max_bytes: int, newest_only: Callable[[Hashable], bool]) -> None:
        self.max_calls, self.max_bytes = max_calls, max_bytes
        self.held = 0
        self.thinned = 0
        """Calls left out because too many waited."""
        self.newest = 0
        """Number of the last call that was put."""
        self._newest_only = newest_only
        self._calls: deque[QueuedCall] = deque()
        self._last: dict[Hashable, QueuedCall] = {}
        self._gone = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._calls) - self._gone

    def put(self, call: QueuedCall) -> int:
        """Add one at the end; since when the oldest waits (``at_ns``)."""
        with self._lock:
            self.newest = call.number = self.newest + 1
            if self._newest_only(call.key):
                self._supersede(call)
            self._calls.append(call)
            self.held += call.held
            if len(self._calls) > self.max_calls or self.held > self.max_bytes:
                self._thin()
            return self._calls[0].at_ns

    def take(self) -> QueuedCall | None:
        """The oldest; None where none waits."""
        with self._lock:
            while self._calls:
                call = self._calls.popleft()
                if call.gone:
                    self._gone -= 1
                    continue
                if self._last.get(call.key) is call:
                    del self._last[call.key]
                self.held -= call.held
                return call
        return None

    @property
    def oldest(self) -> float:
        """Number of the oldest that waits; infinite where none does."""
        try:
            return self._calls[0].number
        except IndexError:
            return float("inf")

    def oldest_s(self) -> float:
        """How long the oldest has waited; 0 where none waits."""
        try:
            return (time.monotonic_ns() - self._calls[0].at_ns) / 1e9
        except IndexError:
            return 0.0

    def curves(self) -> int:
        """Of how many curves values wait."""
        with self._lock:
            return len({call.key for call in self._calls if not call.gone})

    def keep_newest(self) -> None:
        """Of each curve only the newest value may still be written: there is no time for more."""
        with self._lock:
            seen: set[Hashable] = set()
            for call in reversed(self._calls):
                if call.gone:
                    continue
                if call.key in seen:
                    self._leave_out(call)
                    self.thinned += 1
                seen.add(call.key)

    def _supersede(self, call: QueuedCall) -> None:
        older = self._last.get(call.key)
        self._last[call.key] = call
        if older is not None and not older.gone:
            self._leave_out(older)

    def _leave_out(self, call: QueuedCall) -> None:
        call.gone, call.args, call.kwargs = True, (), {}
        self.held -= call.held
        self._gone += 1

    def _thin(self) -> None:
        """Make room for an eighth: thinning again at every call would cost too much."""
        most_calls, most_bytes = self.max_calls - self.max_calls // 8, self.max_bytes - self.max_bytes // 8
        while len(self) > most_calls or self.held > most_bytes:
            if not self._thin_curves():
                break
        for call in self._calls:
            if (len(self) <= max(1, most_calls) and self.held <= most_bytes) or len(self) <= 1:
                break
            if not call.gone:
                self._leave_out(call)
                self.thinned += 1
        self._calls = deque(call for call in self._calls if not call.gone)
        self._gone = 0

    def _thin_curves(self) -> int:
        """Leave out every second waiting value of each curve, counted back from the newest; how many that were."""
        before = self.thinned
        seen: dict[Hashable, int] = {}
        for call in reversed(self._calls):
            if call.gone:
                continue
            place = seen[call.key] = seen.get(call.key, -1) + 1
            if place % 2:
                self._leave_out(call)
                self.thinned += 1
        return self.thinned - before


def curve_key(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
    """What curve a call belongs to: the tag of ``add_scalar(tag, …)``, the keys of ``log({…})``, else its name."""
    first = args[0] if args else kwargs.get("tag", kwargs.get("key"))
    if type(first) is str:
        return name, first
    if type(first) is dict and len(first) <= MAX_KEYS:
        return name, tuple(first)
    return name, ""


MAX_KEYS = 64
"""Of one ``log({…})``; one with more has no keys of its own to tell its curves apart."""
MAX_TAGS = 10_000


def newest_only_matcher(newest_only: bool | tuple[str, ...]) -> Callable[[Hashable], bool]:
    """Whether a curve keeps only its newest waiting value: all, none, or those whose tag fits a pattern."""
    if isinstance(newest_only, bool):
        return lambda _: newest_only
    known: dict[Hashable, bool] = {}

    def fits(key: Hashable) -> bool:
        if key not in known:
            if len(known) >= MAX_TAGS:
                known.clear()
            known[key] = _fits(key, newest_only)
        return known[key]

    return fits


def _fits(key: Hashable, patterns: tuple[str, ...]) -> bool:
    tags = key[1] if isinstance(key, tuple) else key
    tags = (tags,) if isinstance(tags, str) else tags
    return isinstance(tags, tuple) and all(any(fnmatchcase(str(tag), p) for p in patterns) for tag in tags)
