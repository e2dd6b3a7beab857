"""Positions of ranks whose evidence nobody asked for: their node's watcher told them, in a job of many nodes."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from unhang.facts.model import GroupFacts, GroupProgress, PendingCall, RankFacts

if TYPE_CHECKING:
    from unhang.wire.documents.other_nodes import ObservedNode


def ranks_of_nodes(
    ranks: Mapping[int, RankFacts], groups: Mapping[str, GroupFacts], nodes: Iterable[ObservedNode]
) -> dict[int, RankFacts]:
    """``ranks``, and those of which only the watcher of their node told a position."""
    found = dict(ranks)
    for node, _, rank, _, _ in _new_positions(groups, nodes):
        found.setdefault(rank, RankFacts(rank, host=node.host or node.name))
    return found


def add_node_positions(groups: Mapping[str, GroupFacts], nodes: Iterable[ObservedNode]) -> dict[str, GroupFacts]:
    """``groups`` with progress for ranks that have none in groups that dumps of other ranks name.

    A rank that entered the call in which others are, and did not finish it, is taken to be in that call.
    """
    calls = {name: _calls(group) for name, group in groups.items()}
    added: dict[str, dict[int, GroupProgress]] = defaultdict(dict)
    for _, name, rank, enqueued, completed in _new_positions(groups, nodes):
        call = _call_between(calls[name], completed, enqueued)
        added[name].setdefault(rank, GroupProgress(rank, enqueued, completed, call, "watcher"))
    more = {name: groups[name].with_progress({**groups[name].progress, **found}) for name, found in added.items()}
    return {**groups, **more}


def _new_positions(
    groups: Mapping[str, GroupFacts], nodes: Iterable[ObservedNode]
) -> Iterator[tuple[ObservedNode, str, int, int, int]]:
    """(node, group, rank, position entered, position finished) of members that are silent so far."""
    members: dict[str, frozenset[int]] = {}
    for node in nodes:
        for told in node.positions:
            group = groups.get(told.group)
            if group is None:
                continue
            if told.group not in members:  # once for thousands of nodes
                members[told.group] = frozenset(group.members)
            for rank, enqueued, completed in zip(told.rank, told.enqueued, told.completed, strict=True):
                if rank not in group.progress and rank in members[told.group]:
                    yield node, told.group, rank, enqueued, completed


def _calls(group: GroupFacts) -> list[tuple[int, PendingCall]]:
    """One call a position, of those that ranks are in."""
    found = {
        progress.pending.position: progress.pending
        for _, progress in sorted(group.progress.items(), reverse=True)
        if progress.pending is not None and progress.pending.position is not None
    }
    return sorted(found.items(), key=lambda item: item[0])


def _call_between(calls: list[tuple[int, PendingCall]], completed: int, enqueued: int) -> PendingCall | None:
    at = bisect_right([position for position, _ in calls], completed)
    return calls[at][1] if at < len(calls) and calls[at][0] <= enqueued else None
