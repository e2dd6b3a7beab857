"""When a stall began, as far as the lines of a log tell: printed limits, elapsed times, first exceptions."""

from __future__ import annotations

from collections.abc import Iterable

from unhang.evidence.items import LogEvent, LogReading, PythonTraceback


def limit_s(event: LogEvent) -> float | None:
    """The limit that a line prints (``Timeout(ms)=600000``, ``after 1800s``), in seconds."""
    if "limit_ms" in event.values:
        return float(event.values["limit_ms"]) / 1000
    if "limit_s" in event.values:
        return float(event.values["limit_s"])
    limit = event.values.get("limit")
    if isinstance(limit, int):
        return limit / 1000 if event.values.get("limit_unit") == "ms" else float(limit)
    return None


def waiting_since_s(event: LogEvent) -> float | None:
    """When the wait that a timeout ended had begun: its time less what it waited (or its limit); None = no time."""
    if event.time_s is None:
        return None
    waited = event.values.get("elapsed_ms")
    seconds = float(waited) / 1000 if waited is not None else limit_s(event)
    return None if seconds is None else event.time_s - seconds


def group_of(event: LogEvent) -> str | None:
    """Name of the process group an event is about (its key in the recorder's ``pg_config``); None = not told."""
    group = event.values.get("group")
    return str(group) if group is not None else None


def first_tracebacks(readings: Iterable[LogReading]) -> list[PythonTraceback]:
    """Tracebacks of all logs in the order they happened: dated ones by time, the others after them by file and line.

    Of a chain only the last is kept: it is the one that ended the program.
    """
    found = [item for reading in readings for item in reading.tracebacks if not item.chained]
    return sorted(found, key=lambda item: (item.time_s is None, item.time_s or 0.0, item.source.path, item.source.line))
