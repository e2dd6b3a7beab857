"""Ranks that came to a collective after the others had given up on it, and limits that are too small for any work."""

from __future__ import annotations

import re
from dataclasses import dataclass

from unhang.evidence.items import Frame, LogEvent, PythonTraceback
from unhang.facts.model import Facts
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.findings import Evidence, Where
from unhang.knowledge import numbers
from unhang.knowledge.thresholds import threshold, whole_threshold

_GAVE_UP = re.compile(
    r"Timed out waiting (\d+) ?ms|timed out after|collective operation timeout|wait timeout after (\d+) ?ms"
)
_CAME_LATE = re.compile(r"Connection closed by peer|Connection reset by peer|Broken pipe|was likely closed")
TINY_LIMIT_S = threshold("late_arrivals.tiny_limit_s")
# A watchdog checks at least every few seconds: a call that ran this long beyond a limit of seconds was stuck.
STUCK_S = whole_threshold("late_arrivals.stuck_s")


@dataclass(frozen=True, slots=True)
class LateArrival:
    """``ranks`` entered the call after ``waiters`` had timed out in it."""

    ranks: tuple[int, ...]
    waiters: tuple[int, ...]
    limit_s: float | None
    late_by_s: float | None
    where: Where | None
    waiter_where: Where | None
    by_line: bool
    """Both sides failed in the same line of the user's program."""
    by_time: bool
    """The late side's failure is later in time."""
    tracebacks: tuple[PythonTraceback, ...]
    waiter_tracebacks: tuple[PythonTraceback, ...]


def late_arrivals(facts: Facts) -> LateArrival | None:
    """The late ranks, when some ranks timed out and the others failed later in the same call; None otherwise."""
    gave_up = [t for t in facts.tracebacks if t.rank is not None and _GAVE_UP.search(t.message)]
    closed = [
        t
        for t in facts.tracebacks
        if t.rank is not None and _CAME_LATE.search(t.message) and not _GAVE_UP.search(t.message)
    ]
    late_ranks = {t.rank for t in closed} - {t.rank for t in gave_up}
    if not gave_up or not late_ranks:
        return None
    late = [t for t in closed if t.rank in late_ranks]
    place = _call_site(gave_up[0].frames)
    by_line = place is not None and all(_call_site(t.frames) == place for t in late)
    times = [t.time_s for t in gave_up if t.time_s is not None]
    late_times = [t.time_s for t in late if t.time_s is not None]
    late_by = min(late_times) - min(times) if times and late_times else None
    if not by_line or (late_by is not None and late_by <= 0):
        return None
    return LateArrival(
        ranks=tuple(sorted(r for r in late_ranks if r is not None)),
        waiters=tuple(sorted({t.rank for t in gave_up if t.rank is not None})),
        limit_s=_limit_s(gave_up[0]),
        late_by_s=late_by,
        where=first_user_frame(late[0].frames),
        waiter_where=first_user_frame(gave_up[0].frames),
        by_line=by_line,
        by_time=late_by is not None,
        tracebacks=tuple(late),
        waiter_tracebacks=tuple(gave_up),
    )


def tiny_limits(facts: Facts) -> tuple[float, Evidence] | None:
    """The smallest limit that a timeout message prints, when it is too small for any real work: (seconds, line)."""
    found = []
    for event in facts.events_of("wd.timeout", "gloo.to"):
        limit = event.values.get("limit_ms")
        if isinstance(limit, int) and 0 < limit < TINY_LIMIT_S * 1000 and not _stuck_far_longer(event):
            found.append((limit / 1000, Evidence(event.source, event.text, event.rank)))
    return min(found, key=lambda item: item[0], default=None)


def _stuck_far_longer(event: LogEvent) -> bool:
    """The call ran for minutes, many times its limit: a longer limit would have passed as well, or is misprinted."""
    ran = event.values.get("elapsed_ms")
    return isinstance(ran, int) and ran > 1000 * STUCK_S


def _limit_s(traceback: PythonTraceback) -> float | None:
    match = _GAVE_UP.search(traceback.message)
    number = next((g for g in match.groups() if g), None) if match else None
    return numbers.duration_s(number, 0.001) if number else None


def _call_site(frames: tuple[Frame, ...]) -> tuple[str, int | None] | None:
    where = first_user_frame(frames)
    return (where.file, where.line) if where is not None else None
