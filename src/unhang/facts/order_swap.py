"""Two groups whose queued calls stand in opposite order on different ranks.

Record ids order the calls of one process; between processes only their relative order is compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from unhang.facts.model import Facts, GroupFacts


@dataclass(frozen=True, slots=True)
class OrderSwap:
    """``first_ranks`` queued ``first`` before ``second``; ``second_ranks`` the other way round."""

    first: str
    second: str
    first_ranks: tuple[int, ...]
    second_ranks: tuple[int, ...]


def swapped_groups(facts: Facts) -> OrderSwap | None:
    """The first such pair among groups that are all joined and not finished."""
    stuck = [group for _, group in sorted(facts.groups.items()) if _all_joined(group)]
    for first, second in combinations(stuck, 2):
        shared = sorted(set(first.members) & set(second.members))
        before = tuple(r for r in shared if _record(first, r) < _record(second, r))
        after = tuple(r for r in shared if _record(first, r) > _record(second, r))
        if before and after:
            return OrderSwap(first.name, second.name, before, after)
    return None


def _all_joined(group: GroupFacts) -> bool:
    pending = {rank: p.pending for rank, p in group.progress.items() if p.pending is not None}
    return (
        len(group.members) > 1
        and set(pending) == set(group.members)
        and (len({call.position for call in pending.values()}) == 1)
    )


def _record(group: GroupFacts, rank: int) -> int:
    """Record id of the rank's pending call in the group; -1 when it was not recorded."""
    entries = group.entries.get(rank)
    pending = group.progress[rank].pending
    if entries is None or pending is None:
        return -1
    at = entries.position == pending.position
    return int(entries.record_id[at][0]) if at.any() else -1
