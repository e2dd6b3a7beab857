"""A signal that log lines make: who spoke them, on which nodes, and the lines themselves stand here once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unhang.causes.detector import Signal, make_signal
from unhang.evidence.items import LogEvent
from unhang.facts.logs.log_statements import hosts_of_events, quote_events, ranks_of_events
from unhang.findings import Cause, Grade
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text

MAX_NAMED = 2
"""More ranks than these complain alike for one reason of the machine or the way: they are not to blame."""


def log_signal(
    cause: Cause, grade: Grade, summary: Text, lines: Iterable[LogEvent], *remedies: str, **parts: Any
) -> Signal:
    """A signal that ``lines`` make, with these remedies by name; who spoke them is to blame.

    ``more_evidence`` follows their quotes.
    """
    events = tuple(lines)
    told: dict[str, Any] = {
        "ranks": ranks_of_events(events),
        "nodes": hosts_of_events(events),
        "evidence": (*quote_events(events), *parts.pop("more_evidence", ())),
        "remedies": tuple(map(remedy, remedies)),
    }
    return make_signal(cause, grade, summary, **{**told, **parts})


def ranks_if_few(ranks: tuple[int, ...]) -> tuple[int, ...]:
    """``ranks``, or none of them where more than ``MAX_NAMED`` complain alike."""
    return ranks if len(ranks) <= MAX_NAMED else ()
