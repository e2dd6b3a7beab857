"""Work of one rank that has a known end: a bar or counter that was still going when the others gave up."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.evidence.items import Progress
from unhang.facts.model import Facts, Stall
from unhang.findings import Evidence, Source, Where
from unhang.program.syntax.print_statements import find_print_statement


@dataclass(frozen=True, slots=True)
class BoundedWork:
    """``rank`` had done ``done`` of ``total`` when the evidence ends; ``limit_s`` is the waiters' limit."""

    rank: int
    label: str
    done: int
    total: int
    limit_s: float
    evidence: Evidence
    timeout: Evidence
    where: Where | None
    """The line that printed the counter, when the source is there."""


def bounded_work(facts: Facts, stall: Stall) -> BoundedWork | None:
    """What the single laggard of ``stall`` was counting while the others' limit passed; None when it was not."""
    if len(stall.laggards) != 1:
        return None
    (rank,) = stall.laggards
    limit = passed_limit(facts, stall)
    if limit is None:
        return None
    limit_s, timeout = limit
    unfinished = [p for p in facts.ranks[rank].progress if p.total is not None and p.last_step < p.total]
    if not unfinished:
        return None
    latest = max(unfinished, key=lambda p: p.last_line)
    if _others_count_it_too(facts, rank, latest):
        return None
    assert latest.total is not None
    activity = facts.ranks[rank].activity
    where = activity.where if activity is not None else find_print_statement(latest.last_text, facts.sources)
    evidence = Evidence(Source(latest.source.path, latest.last_line), latest.last_text, rank)
    return BoundedWork(rank, latest.label, latest.last_step, latest.total, limit_s, evidence, timeout, where)


def passed_limit(facts: Facts, stall: Stall) -> tuple[float, Evidence] | None:
    """(limit in seconds, line) of the first timeout that a waiter of ``stall`` reports."""
    for event in facts.events_of("wd.timeout", "gloo.to"):
        limit = event.values.get("limit_ms")
        if isinstance(limit, int) and limit > 0 and (event.rank is None or event.rank in stall.waiters):
            return limit / 1000, Evidence(event.source, event.text, event.rank)
    return None


def _others_count_it_too(facts: Facts, rank: int, progress: Progress) -> bool:
    """All ranks show this counter: it is the training loop, not work of one."""
    return any(
        other.label == progress.label for r, known in facts.ranks.items() if r != rank for other in known.progress
    )
