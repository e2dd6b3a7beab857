"""Events as columns of numbers: in memory while they are few, else in a temporary file; given back in order of time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO

import numpy as np
import numpy.typing as npt

EVENT = np.dtype(
    [("start", "f8"), ("end", "f8"), ("name", "i4"), ("thread", "i4"), ("external", "i4"), ("spare", "i4")]
)
"""Times are seconds; ``external`` is -1 where there is none."""
RUN_EVENTS = 1 << 20
"""Events sorted at once: 32 MiB."""
MIN_READ = 4096
Events = npt.NDArray[np.void]


class EventColumns:
    """Takes events in any order and gives them back by their beginning, the longer one of two first."""

    def __init__(self) -> None:
        self._waiting: list[Events] = []
        self._count = 0
        self._file: IO[bytes] | None = None
        self._runs: list[int] = []

    def __len__(self) -> int:
        return sum(self._runs) + self._count

    def add(self, events: Events) -> None:
        """Take some events over."""
        self._waiting.append(events)
        self._count += len(events)
        if self._count >= RUN_EVENTS:
            self._put_away()

    def in_order(self) -> Iterator[Events]:
        """All events, some at a time. Raises OSError where the temporary file cannot be written or read."""
        if self._file is None:
            events = _sorted(self._waiting)
            yield from (events[at : at + RUN_EVENTS // 8] for at in range(0, len(events), RUN_EVENTS // 8))
            return
        if self._count:
            self._put_away()
        yield from _merge_runs(self._stretches())

    def close(self) -> None:
        """Let go of the temporary file."""
        self._waiting.clear()
        if self._file is not None:
            self._file.close()

    def _put_away(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="unhang-")  # noqa: SIM115 - closed in close()
        events = _sorted(self._waiting)
        self._file.write(events.tobytes())
        self._runs.append(len(events))
        self._waiting, self._count = [], 0

    def _stretches(self) -> list[_SortedRun]:
        assert self._file is not None
        self._file.flush()
        ends = np.cumsum(self._runs).tolist()
        return [_SortedRun(self._file, end - size, end) for end, size in zip(ends, self._runs, strict=True)]


class _SortedRun:
    """One sorted run in the file, of which a part at a time is in memory (a mapped file would count as ours)."""

    def __init__(self, file: IO[bytes], at: int, end: int) -> None:
        self._file, self._at, self._end = file, at, end
        self.events = np.empty(0, EVENT)

    @property
    def all_read(self) -> bool:
        """Whether the rest of the run is in ``events``."""
        return self._at >= self._end

    def read(self, count: int) -> None:
        """``count`` more events."""
        count = min(count, self._end - self._at)
        if count > 0:
            self._file.seek(self._at * EVENT.itemsize)
            data = self._file.read(count * EVENT.itemsize)
            self.events = np.concatenate([self.events, np.frombuffer(data, EVENT)])
            self._at += count

    def take(self, limit: float) -> Events:
        """What begins before ``limit``."""
        count = int(np.searchsorted(self.events["start"], limit, side="left"))
        taken, self.events = self.events[:count], self.events[count:]
        return taken


def _merge_runs(stretches: list[_SortedRun]) -> Iterator[Events]:
    """Of every run what begins before a moment up to which all of them are known."""
    count = max(MIN_READ, RUN_EVENTS // (4 * len(stretches)))
    while stretches:
        for stretch in stretches:
            if len(stretch.events) < count:
                stretch.read(count)
        limit = min((one.events["start"][-1] for one in stretches if not one.all_read), default=np.inf)
        taken = _sorted([stretch.take(limit) for stretch in stretches])
        if len(taken):
            yield taken
        else:  # thousands begin at one moment, where clocks are coarse
            for stretch in stretches:
                stretch.read(count)
        stretches = [one for one in stretches if len(one.events) or not one.all_read]


def _sorted(parts: list[Events]) -> Events:
    events = np.concatenate(parts) if parts else np.empty(0, EVENT)
    return events[np.lexsort((-events["end"], events["start"]))]
