"""Positions of ranks whose evidence nobody asked for: their node's watcher told them, in a job of many nodes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping

from unhang.evidence.own_files.other_nodes import ObservedNode
from unhang.facts.model import GroupFacts, GroupProgress, PendingCall, RankFacts
from unhang.findings import Evidence


def add_node_positions(
    groups: Mapping[str, GroupFacts], ranks: dict[int, RankFacts], nodes: Iterable[ObservedNode]
) -> None:
    """Progress for ranks that have none in groups that dumps of other ranks name.

    A rank that entered the call in which others are, and did not finish it, is taken to be in that call.
    """
    calls = {name: _calls(group) for name, group in groups.items()}
    members: dict[str, frozenset[int]] = {}
    for node in nodes:
        for told in node.positions:
            group = groups.get(told.group)
            if group is None:
                continue
            if told.group not in members:  # once for thousands of nodes
                members[told.group] = frozenset(group.members)
            for rank, enqueued, completed in zip(told.rank, told.enqueued, told.completed, strict=True):
                if rank in group.progress or rank not in members[told.group]:
                    continue
                ranks.setdefault(rank, RankFacts(rank, host=node.host or node.name))
                group.progress[rank] = GroupProgress(
                    rank,
                    told.group,
                    enqueued,
                    completed,
                    _call_between(calls[told.group], completed, enqueued),
                    "watcher",
                    evidence=Evidence(node.source, f"{node.name}: rank {rank} came to position {enqueued}", rank),
                )
    for name in members:
        groups[name].silent = tuple(rank for rank in groups[name].members if rank not in groups[name].progress)


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
