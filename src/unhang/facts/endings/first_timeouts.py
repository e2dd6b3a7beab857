"""Whether a process ended before or after ranks had waited in vain.

When a limit has passed, watchdogs abort, interpreters crash on their way out and launchers send signals: whatever ends
then made nobody wait. Times decide; without them the order of lines does, but only of what one speaker said, since the
lines of several are mixed as their buffers fill.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone

from unhang.evidence.items import LogEvent, LogReading, ProcessExit, PythonTraceback
from unhang.knowledge.numbers import utc_time

_KINDS = ("wd.timeout", "gloo.to", "hccl.ei0002", "jax.barrier", "sgl.watchdog", "trtllm.hang")
"""Lines by which a wait of a program says that it ran out."""


class TimeoutOrder(enum.Enum):
    """Where an end stands in relation to the first timeout of its attempt."""

    BEFORE = "before"
    """Also where nobody had timed out."""
    AFTER = "after"
    UNKNOWN = "not-told"


class FirstTimeouts:
    """The first moment, and each speaker's first line, of a wait that ran out, by attempt."""

    def __init__(self, logs: Iterable[LogReading]) -> None:
        """Timeouts that the job went on after do not count."""
        logs = list(logs)
        self._by_day = len({log.has_year for log in logs if log.first_time_s is not None}) > 1
        self._time_s: dict[int, float] = {}
        self._attempts: set[int] = set()
        self._speakers: set[tuple[int, int | None]] = set()
        self._lines: dict[tuple[int, str, int], int] = {}
        self._first_lines: dict[tuple[int, str], int] = {}
        for log in logs:
            counted_s = _last_step_s(log)
            for event in log.events:
                if event.kind in _KINDS and not _steps_continued(counted_s, event):
                    self._add(event)

    def _add(self, event: LogEvent) -> None:
        self._attempts.add(event.attempt)
        if event.time_s is not None:
            self._time_s[event.attempt] = min(self._time_s.get(event.attempt, event.time_s), event.time_s)
        log = (event.attempt, event.source.path)
        self._first_lines[log] = min(self._first_lines.get(log, event.source.line or 0), event.source.line or 0)
        if event.rank is not None and event.source.line is not None:
            speaker = (event.attempt, event.source.path, event.rank)
            self._speakers.add((event.attempt, event.rank))
            self._lines[speaker] = min(self._lines.get(speaker, event.source.line), event.source.line)

    def after_s(self, time_s: float | None, attempt: int) -> float | None:
        """How long after the first limit had passed; below 0 before it. Years are not compared where only some logs
        tell theirs."""
        first_s = self._time_s.get(attempt)
        if time_s is None or first_s is None:
            return None
        return _in_its_year(time_s) - _in_its_year(first_s) if self._by_day else time_s - first_s

    def classify_exception(self, raised: PythonTraceback, ended_s: float | None = None) -> TimeoutOrder:
        """``ended_s``: when its process had ended, which is the latest that it can have been raised."""
        if raised.attempt not in self._attempts:
            return TimeoutOrder.BEFORE
        line = self._lines.get((raised.attempt, raised.source.path, raised.rank if raised.rank is not None else -1))
        if line is not None and raised.source.line is not None:
            return TimeoutOrder.AFTER if line < raised.source.line else TimeoutOrder.BEFORE
        if raised.time_s is not None:
            return self._of_time(raised.time_s, raised.attempt)
        if (raised.source.line or 0) < self._first_lines.get((raised.attempt, raised.source.path), 0):
            return (
                TimeoutOrder.BEFORE
            )  # neither goes through a buffer: what stands in front of every timeout was said before
        latest = self._of_time(ended_s, raised.attempt)
        return TimeoutOrder.BEFORE if latest is TimeoutOrder.BEFORE else TimeoutOrder.UNKNOWN

    def reported_by(self, rank: int | None, attempt: int) -> bool:
        """The process of ``rank`` spoke of a timeout itself: it was there when the limit passed."""
        return (attempt, rank) in self._speakers

    def classify_exit(self, ended: ProcessExit, rank: int | None = None) -> TimeoutOrder:
        """A process that spoke of a timeout was there. A bundle's clock counts from the epoch, that of log lines from
        wherever their machine stands: these two are not compared."""
        if ended.attempt not in self._attempts or ended.source_kind == "bundle":
            return TimeoutOrder.BEFORE
        if self.reported_by(rank, ended.attempt):
            return TimeoutOrder.AFTER
        return self._of_time(ended.time_s, ended.attempt)

    def classify_line(self, told: LogEvent) -> TimeoutOrder:
        """A line about a process that ended: whoever watches it writes behind what it said."""
        if told.attempt not in self._attempts:
            return TimeoutOrder.BEFORE
        if self._first_lines.get((told.attempt, told.source.path), told.source.line or 0) < (told.source.line or 0):
            return TimeoutOrder.AFTER
        return self._of_time(told.time_s, told.attempt)

    def _of_time(self, time_s: float | None, attempt: int) -> TimeoutOrder:
        after_s = self.after_s(time_s, attempt)
        if not after_s:  # or in the same moment
            return TimeoutOrder.UNKNOWN
        return TimeoutOrder.AFTER if after_s > 0 else TimeoutOrder.BEFORE


def _in_its_year(time_s: float) -> float:
    told = utc_time(time_s)
    return time_s - datetime(told.year, 1, 1, tzinfo=timezone.utc).timestamp() if told is not None else time_s


def _last_step_s(log: LogReading) -> dict[int, float]:
    """When the last step was counted, by attempt."""
    latest: dict[int, float] = {}
    for run in log.progress:
        if run.last_time_s is not None:
            latest[run.attempt] = max(latest.get(run.attempt, run.last_time_s), run.last_time_s)
    return latest


def _steps_continued(counted_s: Mapping[int, float], event: LogEvent) -> bool:
    """Steps were counted after it: by their times, as the lines of a rank that ends may come late."""
    last_s = counted_s.get(event.attempt)
    return last_s is not None and event.time_s is not None and last_s > event.time_s
