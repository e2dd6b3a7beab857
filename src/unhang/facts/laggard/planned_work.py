"""Work of one rank that has a known end, against the limit of the others: a counter, or a mark of its author."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from unhang.evidence.items import Progress
from unhang.facts.evidence_quotes import quote_progress
from unhang.facts.model import Facts, RankState, Stall
from unhang.facts.waiting.timeouts import is_limit_near, live_manifest, until_limit_s
from unhang.findings import Evidence, Where
from unhang.program.syntax.print_statements import find_print_statement
from unhang.wire.documents.bundle import MarkedPhase


@dataclass(frozen=True, slots=True)
class BoundedWork:
    """A rank had done ``done`` of ``total`` when the evidence ends; ``limit_s`` is the waiters' limit."""

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
    evidence = quote_progress(latest)
    return BoundedWork(latest.last_step, latest.total, limit_s, evidence, timeout, where)


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


@dataclass(frozen=True, slots=True)
class MarkedWorkBeyondLimit:
    """``rank`` is inside ``work``, which may take longer than the others wait. ``until_limit_s``: until their limit;
    None when it has passed. ``limit_s`` is that limit."""

    rank: int
    work: MarkedPhase
    limit_s: float
    until_limit_s: float | None
    evidence: tuple[Evidence, ...]


def marked_work(facts: Facts, ranks: Iterable[int]) -> dict[int, MarkedPhase]:
    """What each of ``ranks`` marked; empty where one of them marked nothing, or cannot go on."""
    found = {}
    for rank in ranks:
        known = facts.ranks.get(rank)
        if known is None or known.process.marked is None or known.state is RankState.STOPPED:
            return {}
        found[rank] = known.process.marked
    return found


def is_overlong(work: MarkedPhase) -> bool:
    """It took longer than its author allowed."""
    return work.at_most_s is not None and work.gone_s > work.at_most_s


def is_planned(facts: Facts, ranks: Iterable[int]) -> bool:
    """All of ``ranks`` are inside work that may take this long. A rank that stands still inside a mark without a bound
    may as well be stuck."""
    marked = marked_work(facts, ranks)
    return bool(marked) and all(
        not is_overlong(work) and (work.at_most_s is not None or not _is_idle(facts, rank))
        for rank, work in marked.items()
    )


def _is_idle(facts: Facts, rank: int) -> bool:
    known = facts.ranks[rank]
    return known.moving is False and known.process_state == "S"


def marked_work_beyond_limit(facts: Facts, stall: Stall) -> MarkedWorkBeyondLimit | None:
    """The marked work of the laggards may go on when the others' limit passes, which is soon, or has passed."""
    if not is_planned(facts, stall.laggards):
        return None
    marked = marked_work(facts, stall.laggards)
    rank = max(marked, key=lambda rank: (_may_take_s(marked[rank]), -rank))
    work = marked[rank]
    if not facts.ranks[rank].was_seen_alive:
        return None
    looked = live_manifest(facts)
    if looked is None:
        passed = passed_limit(facts, stall)
        return MarkedWorkBeyondLimit(rank, work, passed[0], None, (passed[1],)) if passed is not None else None
    left = until_limit_s(looked, facts)
    call = stall.call
    if left is None or call is None or call.timeout_ms is None or not is_limit_near(looked, facts):
        return None
    if _may_take_s(work) <= left:
        return None
    return MarkedWorkBeyondLimit(rank, work, call.timeout_ms / 1000, left, (call.evidence,))


def _may_take_s(work: MarkedPhase) -> float:
    """Seconds from the sample on."""
    return work.at_most_s - work.gone_s if work.at_most_s is not None else float("inf")
