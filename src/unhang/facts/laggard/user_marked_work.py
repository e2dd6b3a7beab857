"""Work that its author marked as long (``unhang.phase``), against the limit of those who wait for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from unhang.facts.laggard.bounded_work import passed_limit
from unhang.facts.model import Facts, RankState, Stall
from unhang.facts.waiting.near_timeout import is_limit_near, live_manifest, until_limit_s
from unhang.findings import Evidence
from unhang.wire.documents.bundle import MarkedPhase


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
        if known is None or known.marked is None or known.state is RankState.STOPPED:
            return {}
        found[rank] = known.marked
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
