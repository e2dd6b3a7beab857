"""Laggards and their waiters, gathered; and groups all of whose members are in one call that none completed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from unhang.facts.collective_operations import POINT_TO_POINT, ranks_by_sizes
from unhang.facts.model import (
    Activity,
    AllJoinedStall,
    CallMismatch,
    Facts,
    GroupFacts,
    PendingCall,
    RankFacts,
    Stall,
    WaitEdge,
    WaitForGraph,
)
from unhang.facts.waiting.progress_from_stacks import waiting_activity


def find_stalls(
    graph: WaitForGraph, groups: Mapping[str, GroupFacts], ranks: Mapping[int, RankFacts]
) -> tuple[Stall, ...]:
    """Roots of the wait-for graph that stand at the same place form one stall; most waiters first."""
    into: dict[int, list[WaitEdge]] = defaultdict(list)
    for edge in graph.edges:
        into[edge.awaited].append(edge)
    together: dict[tuple[str, int | None, str, tuple[object, ...]], list[int]] = defaultdict(list)
    for root in graph.roots:
        group, position, reason = _main_edge(into[root])
        together[group, position, reason, _place(ranks.get(root), reason)].append(root)
    stalls = []
    for (group, position, reason, _), roots in together.items():
        direct = tuple(sorted({e.waiter for root in roots for e in into[root]}))
        all_waiters = sorted(_all_waiters(roots, into) - set(roots))
        stalls.append(
            Stall(
                laggards=tuple(sorted(roots)),
                waiters=tuple(all_waiters),
                direct_waiters=direct,
                group=group,
                position=position,
                reason=reason,
                call=_waiters_call(groups[group], direct, position),
            )
        )
    return tuple(sorted(stalls, key=lambda s: (-len(s.waiters), s.laggards)))


def _all_waiters(roots: list[int], into: Mapping[int, list[WaitEdge]]) -> set[int]:
    """Everyone who waits for any of ``roots``, directly or through others."""
    found: set[int] = set()
    wave = set(roots)
    while wave:
        wave = {edge.waiter for rank in wave for edge in into.get(rank, ())} - found
        found |= wave
    return found


def _main_edge(edges: list[WaitEdge]) -> tuple[str, int | None, str]:
    """The group in which most ranks wait for it; on a tie the earliest position, then the name."""
    counts = Counter(edge.group for edge in edges)
    best = min(edges, key=lambda e: (-counts[e.group], e.position if e.position is not None else -1, e.group, e.reason))
    return best.group, best.position, best.reason


def _place(facts: RankFacts | None, reason: str) -> tuple[object, ...]:
    """Where a laggard stands; ranks that stand at different places are different stalls.

    Ranks that say nothing of how far they came are suspected alike, whether a line of theirs was read or none.
    """
    activity: Activity | None = facts.activity if facts is not None else None
    if reason == "silent" and activity is None:
        return ("silent",)
    if facts is None:
        return ("missing",)
    if activity is None or activity.where is None:
        return (facts.state.value, activity.what if activity else "")
    return (facts.state.value, activity.where.file, activity.where.line)


def _waiters_call(group: GroupFacts, direct: tuple[int, ...], position: int | None) -> PendingCall | None:
    """The call of the first waiter that stands at ``position``."""
    calls = [call for rank in direct if (call := group.pending(rank)) is not None]
    at_position = [call for call in calls if call.position == position]
    return next(iter(at_position or calls), None)


def is_device_behind(groups: Mapping[str, GroupFacts], ranks: Mapping[int, RankFacts], stall: Stall) -> bool:
    """Every laggard has a collective unfinished that some peer has finished: it was queued and never run.

    Gloo queues nothing on a device: there the rank itself is still in the call.
    """
    if any(known.recording is not None and known.recording.backend == "gloo" for known in ranks.values()):
        return False
    return all(
        any(
            (mine := group.progress.get(rank)) is not None
            and mine.pending is not None
            and mine.pending.position is not None
            and mine.source_kind != "log"
            and any(p.completed >= mine.pending.position for r, p in group.progress.items() if r != rank)
            for group in groups.values()
            if not group.p2p
        )
        for rank in stall.laggards
    )


_ATTACH_COMMAND = "unhang attach"


def find_all_joined_stalls(
    groups: Mapping[str, GroupFacts], disagreements: tuple[CallMismatch, ...], world_size: int | None
) -> tuple[AllJoinedStall, ...]:
    """Groups of at least two members in which all members are pending at one position."""
    disputed = {d.group for d in disagreements}
    found = []
    for name, group in sorted(groups.items()):
        if name in disputed or len(group.members) < 2 or group.silent or _is_log_excerpt(group, world_size):
            continue
        pending = group.pending_calls
        if set(pending) != set(group.members) or len(pending) < (group.size or 0):
            continue  # who has not come yet is none of those that joined
        positions = {call.position for call in pending.values()}
        operations = {call.operation for call in pending.values()}
        if any(p.source_kind == "stack" for p in group.progress.values()):
            # Stacks know no positions: the same line may be another round of the loop.
            continue
        if len(positions) != 1 or None in positions or len(operations) != 1 or operations & POINT_TO_POINT:
            continue
        (position,) = positions
        call = pending[group.members[0]]
        assert position is not None
        found.append(AllJoinedStall(name, position, call.operation, group.members, pending))
    return tuple(found)


def _is_log_excerpt(group: GroupFacts, world_size: int | None) -> bool:
    """Only log lines tell of it, and nothing how many members it has: who is waited for may be in no line shown."""
    if not any(p.source_kind == "log" for p in group.progress.values()):
        return False
    if world_size is None:
        return True
    return not group.members_known and _size_by_gather(group) != len(group.members)


def _size_by_gather(group: GroupFacts) -> int | None:
    calls = group.pending_calls.values()
    sizes = {ranks_by_sizes(call.operation, call.elements, call.output_elements) for call in calls} - {None}
    return sizes.pop() if len(sizes) == 1 else None


def nobody_moved(facts: Facts) -> bool:
    """``unhang attach`` sampled every rank more than once, and saw none get on."""
    looked = [manifest for manifest in facts.manifests if manifest.taken_by == _ATTACH_COMMAND]
    moving = [known.moving for known in facts.ranks.values() if known.alive]
    return bool(looked) and not any(moving) and False in moving


def all_wait(facts: Facts) -> bool:
    """Every rank of the job was seen, and each that lives waits by its stack."""
    return not facts.ranks_missing and all(
        waiting_activity(known) is not None for known in facts.ranks.values() if known.alive
    )
