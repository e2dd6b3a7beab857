"""Two groups whose queued calls stand in opposite order on different ranks.

Record ids order the calls of one process; between processes only their relative order is compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, pairwise

from unhang.facts.model import Facts, GroupFacts


@dataclass(frozen=True, slots=True)
class OrderSwap:
    """``first_ranks`` queued ``first`` before ``second``; ``second_ranks`` the other way round."""

    first: str
    second: str
    first_ranks: tuple[int, ...]
    second_ranks: tuple[int, ...]


RecordIds = Mapping[int, int]
"""Record ids of the ranks' pending calls in one group."""


def swapped_groups(facts: Facts) -> OrderSwap | None:
    """The first such pair among groups that are all joined and not finished."""
    stuck = {
        name: {rank: _record(group, rank) for rank in group.members}
        for name, group in sorted(facts.groups.items())
        if _all_joined(group)
    }
    for one, other in combinations(_groups_in_conflict(stuck), 2):
        first, second = stuck[one], stuck[other]
        shared = sorted(first.keys() & second.keys())
        before = tuple(r for r in shared if first[r] < second[r])
        after = tuple(r for r in shared if first[r] > second[r])
        if before and after:
            return OrderSwap(one, other, before, after)
    return None


def _groups_in_conflict(stuck: Mapping[str, RecordIds]) -> list[str]:
    """The groups that cannot be put into one order that suits every rank; a swapped pair is among them.

    Thousands of groups are millions of pairs, but each rank queued its own one after the other.
    """
    queues: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, records in stuck.items():
        for rank, record in records.items():
            queues[rank][record].append(name)
    forwards, backwards = TopologicalSorter[object](), TopologicalSorter[object]()
    for rank, queue in queues.items():
        for (record, earlier), (_, later) in pairwise(sorted(queue.items())):
            between = (rank, record)  # calls that were not recorded stand beside each other
            forwards.add(between, *earlier)
            backwards.add(between, *later)
            for name in later:
                forwards.add(name, between)
            for name in earlier:
                backwards.add(name, between)
    free = _ordered(forwards) | _ordered(backwards)
    linked = {name for queue in queues.values() if len(queue) > 1 for names in queue.values() for name in names}
    return [name for name in stuck if name in linked and name not in free]


def _ordered(sorter: TopologicalSorter[object]) -> set[object]:
    """What can be put into order up to the first circle."""
    with suppress(CycleError):
        sorter.prepare()
    found: set[object] = set()
    while ready := sorter.get_ready():
        found.update(ready)
        sorter.done(*ready)
    return found


def _all_joined(group: GroupFacts) -> bool:
    pending = group.pending_calls
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
