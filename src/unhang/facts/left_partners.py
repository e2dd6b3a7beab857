"""A circle that is no matter of order: some are in a send or receive whose partner has gone on to a collective."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.facts.model import Facts, PendingCall
from unhang.facts.operations import POINT_TO_POINT


@dataclass(frozen=True, slots=True)
class LeftPartners:
    """``gone`` stand in ``call``, a collective; ``waiting`` are in a send or receive with them, ``left``."""

    gone: tuple[int, ...]
    call: PendingCall
    waiting: tuple[int, ...]
    left: PendingCall


def left_partners(facts: Facts, cycle: tuple[int, ...]) -> LeftPartners | None:
    """For a circle of the wait-for graph; None when partners wait for each other in sends and receives."""
    edges = [e for e in facts.graph.edges if e.reason == "p2p-partner" and e.waiter in cycle and e.awaited in cycle]
    gone = tuple(sorted({e.awaited for e in edges}))
    waiting = tuple(sorted({e.waiter for e in edges}))
    if not edges or set(gone) & set(waiting):
        return None
    calls = [call for rank in gone if (call := _collective_of(facts, rank)) is not None]
    first = edges[0]
    left = facts.groups[first.group].progress[first.waiter].pending
    if len(calls) != len(gone) or left is None:
        return None
    return LeftPartners(gone, calls[0], waiting, left)


def _collective_of(facts: Facts, rank: int) -> PendingCall | None:
    for _, group in sorted(facts.groups.items()):
        progress = group.progress.get(rank)
        call = progress.pending if progress is not None else None
        if call is not None and call.operation not in POINT_TO_POINT:
            return call
    return None
