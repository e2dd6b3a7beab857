"""The limit that passed against the limit the user had set."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.evidence.items import LogEvent
from unhang.facts.logs.log_statements import quote_event
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.model import Facts
from unhang.findings import Evidence
from unhang.knowledge import numbers
from unhang.knowledge.thresholds import threshold

_UNITS = {"seconds=": 1, "minutes=": 60, "hours=": 3600, "days=": 86400}
# A limit that passed and one that was set are the same within this factor.
SAME = threshold("timeout_settings.same")


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
