"""Waits that logs tell of: who gave up waiting, in what, since when, with which limit, and for whom.

Several timeouts of one run are one stall: they are returned together, and (time of the line - limit) dates it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from unhang.evidence.items import LogEvent
from unhang.facts.collective_operations import canonical_operation, is_barrier
from unhang.facts.logs.log_statements import first_attempt, quote_event, quote_events
from unhang.facts.logs.progress_from_logs import groups_by_position
from unhang.facts.model import Facts, once
from unhang.findings import Evidence
from unhang.knowledge import numbers
from unhang.knowledge.messages import rank_list
from unhang.knowledge.numbers import TimeForm

_RAN_OUT = re.compile(r"[Tt]ime ?out|timed out")
_GONE = re.compile(
    r"reset by peer|Broken pipe|Connection (?:was likely )?closed|got 0 bytes|Connection refused|shut ?down"
)


@dataclass(frozen=True, slots=True)
class LogWait:
    """One rank that gave up waiting."""

    rank: int | None
    operation: str
    """Empty for a wait on the store."""
    elements: int | None
    position: int | None
    group: str
    limit_s: float | None
    since_s: float | None
    """When it entered the call: the time of the line less how long it ran."""
    ended_s: float | None
    awaited: int | None
    """The rank whose word it waited for, where the line names it."""
    partner_gone: bool
    """The other side closed the connection: it did not take too long, it ended."""
    evidence: Evidence
    time_form: TimeForm = TimeForm.DAY
    """How much of its times the line tells."""

    @property
    def barrier(self) -> bool:
        """A barrier: also as an all-reduce of one element, or as the first exchange of a group's id."""
        return is_barrier(self.operation, self.elements)


@dataclass(frozen=True)
class LoggedWaits:
    """The waits of one stall that ended in timeouts, as logs tell them."""

    waits: tuple[LogWait, ...]

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Ranks that gave up, as far as their lines tell."""
        return tuple(sorted(self.rank_set))

    @cached_property
    def rank_set(self) -> frozenset[int]:
        """The same, to ask whether a rank is among them."""
        return frozenset(w.rank for w in self.waits if w.rank is not None)

    @cached_property
    def limits(self) -> tuple[float, ...]:
        """Limits that passed, each once."""
        return tuple(sorted({w.limit_s for w in self.waits if w.limit_s is not None}))

    @cached_property
    def began_s(self) -> float | None:
        """When the first of them entered its call."""
        return self.first_wait.since_s if self.first_wait is not None else None

    @cached_property
    def first_wait(self) -> LogWait | None:
        """The wait of whoever entered its call first."""
        dated = (w for w in self.waits if w.since_s is not None)
        return min(dated, key=lambda w: (w.since_s or 0.0, w.time_form), default=None)

    @cached_property
    def positions(self) -> frozenset[int | None]:
        """Positions at which they waited."""
        return frozenset(w.position for w in self.waits)


@once
def logged_waits(facts: Facts) -> LoggedWaits | None:
    """The waits of the first stall that logs tell of; None when nobody gave up waiting."""
    events = first_attempt(facts.events_of("wd.timeout", "uid.wait", "store.wait", "gloo.to"))
    inside = {(e.source.path, e.source.line) for e in events if e.kind == "uid.wait"}
    groups = groups_by_position(first_attempt(facts.events_of("wd.fail")))
    waits = [
        _wait(e, groups.get((e.rank, e.values.get("position"))) if e.rank is not None else None)
        for e in events
        if not (e.kind == "store.wait" and (e.source.path, e.source.line) in inside)
    ]
    return LoggedWaits(_without_repeats(waits)) if waits else None


def _without_repeats(waits: list[LogWait]) -> tuple[LogWait, ...]:
    """Torch says one timeout many times over."""
    kept: dict[tuple[Any, ...], LogWait] = {}
    for wait in waits:
        key = (wait.rank, wait.group, wait.position, wait.operation, wait.awaited)
        known = kept.get(key)
        if known is None or (known.elements is None and wait.elements is not None):
            kept[key] = wait
    return tuple(kept.values())


def _wait(event: LogEvent, group: str | None) -> LogWait:
    values = event.values
    error = str(values.get("error", ""))
    limit = values.get("limit_ms")
    if not isinstance(limit, int):
        found = re.search(r"after (\d+) ?ms", event.text)
        limit = numbers.integer(found[1]) if found else None
    ran = values.get("elapsed_ms")
    if event.kind != "wd.timeout":
        ran = limit
    rank = event.rank
    if rank is None and event.kind == "uid.wait" and values.get("key") in ("0", "default_pg/0"):
        rank = values.get("group_rank")
    elements = values.get("elements_in")
    return LogWait(
        rank=rank,
        operation=canonical_operation(str(values.get("operation", ""))),
        elements=elements if isinstance(elements, int) else None,
        position=values.get("position"),
        group=str(values.get("group") or values.get("group_id") or group or "0"),
        limit_s=limit / 1000 if isinstance(limit, int) else None,
        since_s=event.time_s - ran / 1000 if event.time_s is not None and isinstance(ran, int) else None,
        ended_s=event.time_s,
        awaited=values.get("from_rank"),
        partner_gone=bool(_GONE.search(error)) and not _RAN_OUT.search(error),
        evidence=quote_event(event),
        time_form=event.time_form,
    )


_REPORTS = (
    (("mb.one",), "the monitored barrier"),
    (("desync.never", "desync.behind"), "desync debug"),
    (("hvd.missing",), "Horovod's stall check"),
    (("jax.missing",), "JAX's coordination service"),
    (("fr.missing",), "torch's dump analyser"),
    (("nvrx.missing",), "NVIDIA's resiliency extension"),
)


@dataclass(frozen=True, slots=True)
class ReportedMissing:
    """``ranks`` did not come; ``source_kind`` says which report names them."""

    ranks: tuple[int, ...]
    source_kind: str
    evidence: tuple[Evidence, ...]


def reported_missing_ranks(facts: Facts) -> ReportedMissing | None:
    """The first report that names ranks."""
    for kinds, source_kind in _REPORTS:
        events = first_attempt(facts.events_of(*kinds))
        ranks: set[int] = set()
        for event in events:
            value = event.values.get("ranks", ())
            ranks.update(value if isinstance(value, tuple) else rank_list(str(value)))
        if ranks:
            return ReportedMissing(tuple(sorted(ranks)), source_kind, quote_events(events))
    return None
