"""Who comes last: in a job that moves, the rank that enters its group's collectives after everybody else.

Recorders keep when each call was made. Clocks of different hosts differ by an unknown constant, which looks just like
a rank that is always late, so only ranks of one host are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unhang.facts.model import GroupFacts, RankFacts
from unhang.knowledge.thresholds import threshold, whole_threshold

if TYPE_CHECKING:
    from unhang.evidence.items import IntColumn

MIN_POSITIONS = whole_threshold("arrival_order.min_positions")
ALWAYS = threshold("arrival_order.always")
"""Share of positions at which the same rank must come last."""
SHARE_OF_STEP = threshold("arrival_order.share_of_step")
"""Its median lateness must be at least this share of the median time between positions."""


def latest_arriver(groups: Mapping[str, GroupFacts], ranks: Mapping[int, RankFacts]) -> tuple[int, int] | None:
    """(rank, positions compared) of the rank that practically always comes last and holds the others up by much."""
    if len({facts.host for facts in ranks.values() if facts.host}) > 1:
        return None
    for _, group in sorted(groups.items(), key=lambda item: (-len(item[1].members), item[0])):
        if len(group.entries) >= 2 and len(group.entries) == len(group.members):
            found = _latest_in(group)
            if found is not None:
                return found
    return None


def _latest_in(group: GroupFacts) -> tuple[int, int] | None:
    import numpy as np

    ranks = sorted(group.entries)
    shared = set.intersection(*(set(group.entries[rank].position.tolist()) for rank in ranks))
    positions = np.array(sorted(shared), dtype=np.int64)
    if len(positions) < MIN_POSITIONS:
        return None
    created = np.stack([_created(group, rank, positions) for rank in ranks])
    if not created.all():
        return None
    last = created.argmax(axis=0)
    counts = np.bincount(last, minlength=len(ranks))
    latest = int(counts.argmax())
    others = np.sort(np.delete(created, latest, axis=0), axis=0)[-1]
    lateness = float(np.median(created[latest] - others))
    step = float(np.median(np.diff(created.min(axis=0))))
    if counts[latest] < ALWAYS * len(positions) or lateness < SHARE_OF_STEP * step:
        return None
    return ranks[latest], len(positions)


def _created(group: GroupFacts, rank: int, positions: IntColumn) -> IntColumn:
    import numpy as np

    entries = group.entries[rank]
    created: IntColumn = entries.created_ns[np.searchsorted(entries.position, positions)]
    return created
