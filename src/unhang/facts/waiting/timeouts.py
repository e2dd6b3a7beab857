"""Limits of waits: which are near, which were set and not in force, and who came after one had passed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from unhang.evidence.items import Frame, LogEvent, PythonTraceback
from unhang.facts.evidence_quotes import quote_traceback
from unhang.facts.logs.log_statements import quote_event
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.model import Facts
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.facts.waiting.guard_waits import awaited_guard
from unhang.findings import Evidence, Where
from unhang.knowledge import numbers
from unhang.knowledge.thresholds import threshold, whole_threshold
from unhang.wire.documents.bundle import BundleManifest

NEAR_S = threshold("timeouts.near_s")
NEAR_SHARE = threshold("timeouts.near_share")
"""The limit is near when no more than so many seconds, or so much of the whole wait, is left."""


def live_manifest(facts: Facts) -> BundleManifest | None:
    """The manifest of the sample of a job that went on; None where there was none."""
    return next((manifest for manifest in facts.manifests if manifest.live and manifest.taken_s is not None), None)


def until_limit_s(looked: BundleManifest, facts: Facts) -> float | None:
    """Seconds from the sample to the first limit that passes; None where no pending call tells one."""
    at_s = limit_at_s(facts, looked.stalled_since_s)
    return at_s - looked.taken_s if at_s is not None and looked.taken_s is not None else None


def is_limit_near(looked: BundleManifest, facts: Facts) -> bool:
    """The end of the job is close enough to speak of it as one."""
    left = until_limit_s(looked, facts)
    if left is None or looked.taken_s is None:
        return False
    waited_s = max(0.0, looked.taken_s - (looked.stalled_since_s or looked.taken_s))
    return left <= max(NEAR_S, NEAR_SHARE * (left + waited_s))


def limit_at_s(facts: Facts, stalled_since_s: float | None = None) -> float | None:
    """The first moment (seconds since the epoch) at which a pending collective's limit passes; None when nothing tells.

    ``stalled_since_s`` stands in where a dump does not say when its call began.
    """
    moments = []
    for group in facts.groups.values():
        for progress in group.progress.values():
            call = progress.pending
            if call is None or call.timeout_ms is None or call.timeout_ms <= 0:
                continue
            since_s = call.since_s or stalled_since_s
            if since_s is not None:
                moments.append(since_s + call.timeout_ms / 1000)
    return min(moments, default=None)


def guard_limit(facts: Facts) -> tuple[float, str] | None:
    """When the first guard in which a rank waits gives up (seconds since the epoch), and which; None: none does."""
    taken_s = max((manifest.taken_s for manifest in facts.manifests if manifest.taken_s is not None), default=None)
    if taken_s is None:
        return None
    limits = [
        (taken_s - wait.waited_s + wait.limit_s, awaited_guard(known))
        for known in facts.ranks.values()
        if (wait := known.process.guard_wait) is not None and wait.limit_s is not None
    ]
    return min(limits, default=None)


_UNITS = {"seconds=": 1, "minutes=": 60, "hours=": 3600, "days=": 86400}
# A limit that passed and one that was set are the same within this factor.
SAME = threshold("timeouts.same")


@dataclass(frozen=True, slots=True)
class LimitNotInForce:
    """Somebody set ``set_s``; what passed was ``passed_s``."""

    name: str
    set_s: float
    passed_s: float
    evidence: tuple[Evidence, ...]


def limit_not_in_force(facts: Facts) -> LimitNotInForce | None:
    """The first limit that was set longer than the one that passed; None when they agree or nobody set one."""
    logged = logged_waits(facts)
    if logged is None or not logged.limits:
        return None
    passed = min(logged.limits)
    line = next((w.evidence for w in logged.waits if w.limit_s == passed), None)
    for event in facts.events_of("run.limit_set"):
        seconds = _seconds(event)
        if seconds is not None and seconds > passed * SAME and line is not None:
            return LimitNotInForce(str(event.values.get("name")), seconds, passed, (quote_event(event), line))
    return None


def _seconds(event: LogEvent) -> float | None:
    amount = str(event.values.get("amount", ""))
    unit = _UNITS.get(str(event.values.get("unit", "")), 60 if "minutes" in str(event.values.get("name")) else 1)
    if event.values.get("name") == "timedelta" and "unit" not in event.values:
        return None
    return numbers.duration_s(amount, unit)


_GAVE_UP = re.compile(
    r"Timed out waiting (\d+) ?ms|timed out after|collective operation timeout|wait timeout after (\d+) ?ms"
)
_CAME_LATE = re.compile(r"Connection closed by peer|Connection reset by peer|Broken pipe|was likely closed")
TINY_LIMIT_S = threshold("timeouts.tiny_limit_s")
# A watchdog checks at least every few seconds: a call that ran this long beyond a limit of seconds was stuck.
STUCK_S = whole_threshold("timeouts.stuck_s")


@dataclass(frozen=True, slots=True)
class LateArrival:
    """``ranks`` entered the call after ``waiters`` had timed out in it: both failed in one line of the program.

    ``late_by_s``: None where no times tell that theirs came later.
    """

    ranks: tuple[int, ...]
    waiters: tuple[int, ...]
    limit_s: float | None
    late_by_s: float | None
    where: Where | None
    waiter_where: Where | None
    evidence: tuple[Evidence, ...]


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
        evidence=(quote_traceback(gave_up[0]), quote_traceback(late[0])),
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
