"""Laggards and their waiters, gathered: what the detectors of a laggard start from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from unhang.facts.model import Activity, GroupFacts, PendingCall, RankFacts, Stall, WaitEdge, WaitForGraph


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
