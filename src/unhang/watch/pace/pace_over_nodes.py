"""Whom all ranks of a moving job wait for, over all nodes: each tells of the rank that waits least, and no more.

Five small numbers a node are enough, because a rank holds the others up only where it waits clearly less than every
other one does, and that is decided by the two that wait least.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

import msgspec

from unhang.watch.pace.pace_record import PaceRecord

MAX_SAMPLES = 120
"""What is told of more; small numbers travel in a byte."""
_Count = Annotated[int, msgspec.Meta(ge=0)]


class NodePace(msgspec.Struct, array_like=True, frozen=True):
    """The ``rank`` of a node that waits least. ``waits``: in what percentage of the samples; ``next``: the one of the
    node's rank that waits least after it, -1 where it has only one; ``lost``: what percentage of its steps of now was
    not there before they grew slower, 0 where they did not."""

    samples: _Count
    rank: _Count
    waits: Annotated[int, msgspec.Meta(ge=0, le=100)]
    next: Annotated[int, msgspec.Meta(ge=-1, le=100)]
    lost: Annotated[int, msgspec.Meta(ge=0, lt=100)]


class SlowestRank(NamedTuple):
    """``rank`` on node ``node`` (None: this one) holds all others up; ``changed``: steps have grown slower. Without a
    rank: they have, and all ranks wait for what lies between them."""

    node: int | None
    rank: int | None
    changed: bool


def node_pace(record: PaceRecord) -> NodePace | None:
    """What a node tells; None while it has seen too little."""
    from unhang.facts.pace.slow_rank_over_time import MIN_LOOKS
    from unhang.facts.pace_change import find_step_change

    if record.samples < MIN_LOOKS or not record.ranks:
        return None
    order = sorted((known.waits, rank) for rank, known in record.ranks.items())
    shares = [min(100, round(100 * waits / record.samples)) for waits, _ in order[:2]]
    rank = order[0][1]
    change = find_step_change(list(record.ranks[rank].steps.told()))
    lost = round(100 * change.lost_share) if change is not None else 0
    samples, after = min(MAX_SAMPLES, round(record.samples)), shares[1] if len(shares) > 1 else -1
    return NodePace(samples, rank, shares[0], after, lost)


def find_slowest_rank(own: NodePace | None, others: Mapping[int, NodePace | None]) -> SlowestRank | None:
    """Who holds all ranks of all nodes up; None where no rank does, or a node has not reported."""
    from unhang.facts.pace.slow_rank_over_time import ALL_WAIT, MIN_LOOKS, holds_up

    told: dict[int | None, NodePace] = {node: one for node, one in others.items() if one is not None}
    if own is None or len(told) < len(others) or any(one.samples < MIN_LOOKS for one in told.values()):
        return None
    told[None] = own
    if all(one.waits >= 100 * ALL_WAIT and one.lost for one in told.values()):
        return SlowestRank(None, None, changed=True)
    node = min(told, key=lambda known: (told[known].waits, told[known].rank))
    samples = min(one.samples for one in told.values())
    least = told.pop(node)
    usual = min([one.waits for one in told.values()] + ([least.next] if least.next >= 0 else []), default=0)
    if not holds_up(least.waits / 100, usual / 100, least.lost / 100, samples):
        return None
    return SlowestRank(node, least.rank, least.lost > 0)
