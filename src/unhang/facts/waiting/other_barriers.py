"""Ranks in a barrier of their framework (``ray.train.report``), and those it misses in a collective with them."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.facts.logs.log_statements import field_text, first_attempt, quote_event
from unhang.facts.model import Facts, Stall, once
from unhang.findings import Evidence


@dataclass(frozen=True, slots=True)
class OtherBarrier:
    """The laggards of ``stall`` came to ``call``, and the framework says that it waits for the waiters."""

    stall: Stall
    call: str
    evidence: Evidence


@once
def other_barrier(facts: Facts) -> OtherBarrier | None:
    """By the framework's last word on whom it misses."""
    told = [
        event
        for event in first_attempt(facts.events_of("train.barrier", "train.barrier_limit"))
        if event.values.get("ranks")
    ]
    if not told:
        return None
    missed = set(told[-1].values["ranks"])
    fits = (s for s in facts.stalls if missed.issuperset(s.direct_waiters) and not missed & set(s.laggards))
    stall = next(fits, None)
    return OtherBarrier(stall, field_text(told[-1], "call"), quote_event(told[-1])) if stall is not None else None
