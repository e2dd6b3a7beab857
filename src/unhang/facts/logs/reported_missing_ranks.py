"""Ranks that reports of torch, Horovod or JAX name as the ones that did not come."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.facts.logs.log_statements import first_attempt, quote_events
from unhang.facts.model import Facts
from unhang.findings import Evidence
from unhang.knowledge.messages import rank_list

_REPORTS = (
    (("mb.one",), "the monitored barrier"),
    (("desync.never", "desync.behind"), "desync debug"),
    (("hvd.missing",), "Horovod's stall check"),
    (("jax.missing",), "JAX's coordination service"),
)


@dataclass(frozen=True, slots=True)
class ReportedMissing:
    """``ranks`` did not come; ``source_kind`` says which report names them."""

    ranks: tuple[int, ...]
    source_kind: str
    evidence: tuple[Evidence, ...]


def reported_missing_ranks(facts: Facts) -> ReportedMissing | None:
    """The first report that names ranks: monitored barrier, desync debug, Horovod, JAX."""
    for kinds, source_kind in _REPORTS:
        events = first_attempt(facts.events_of(*kinds))
        ranks: set[int] = set()
        for event in events:
            value = event.values.get("ranks", ())
            ranks.update(value if isinstance(value, tuple) else rank_list(str(value)))
        if ranks:
            return ReportedMissing(tuple(sorted(ranks)), source_kind, quote_events(events))
    return None
