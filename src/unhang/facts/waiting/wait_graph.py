"""Who waits for whom, over all groups.

A waiter waits for the members of its group that have not reached its position. Ranks that are awaited and wait for
nobody are the laggards; where there are none, the ranks wait for each other in a cycle.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping

from unhang.facts.collective_operations import POINT_TO_POINT
from unhang.facts.model import GroupFacts, GroupProgress, PendingCall, RankFacts, RankState, WaitEdge, WaitForGraph

MAX_SILENT_EDGES = 200_000
SAMPLE = 16


def build_wait_graph(groups: Mapping[str, GroupFacts], ranks: Mapping[int, RankFacts]) -> WaitForGraph:
    """The graph of all groups; independent of the order of groups and ranks."""
    edges: set[WaitEdge] = set()
    for _, group in sorted(groups.items()):
        edges.update(_edges_of(group, ranks))
    return wait_graph_of(edges)


def wait_graph_of(edges: Iterable[WaitEdge]) -> WaitForGraph:
    """Roots, cycles and waiters of a set of edges."""
    ordered = tuple(sorted(edges, key=lambda e: (e.waiter, e.awaited, e.group, e.position or -1, e.reason)))
    out: dict[int, set[int]] = defaultdict(set)
    into: dict[int, set[int]] = defaultdict(set)
    for edge in ordered:
        out[edge.waiter].add(edge.awaited)
        into[edge.awaited].add(edge.waiter)
    roots = sorted(into.keys() - out.keys())
    cycles = sorted(_circles(out.keys() - set(_reached(roots, into)), out, into))
    return WaitForGraph(ordered, tuple(roots), tuple(cycles), tuple(sorted(out)))


def _edges_of(group: GroupFacts, ranks: Mapping[int, RankFacts]) -> set[WaitEdge]:
    edges: set[WaitEdge] = set()
    order = _MembersByProgress(group)
    for rank, progress in group.progress.items():
        call = progress.pending
        if call is None:
            continue
        if call.operation in POINT_TO_POINT:
            edges |= _p2p_edges(rank, call, group, ranks)
        elif call.position is not None:
            edges |= _collective_edges(rank, progress, call.position, group, ranks, order)
    return edges


class _MembersByProgress:
    """Members sorted by how far they are: thousands of ranks stay cheap, since only those behind are ever looked at."""

    def __init__(self, group: GroupFacts) -> None:
        self.reach = sorted((p.enqueued, r) for r, p in group.progress.items())
        self.pending = sorted(
            (p.pending.position, r, p.enqueued)
            for r, p in group.progress.items()
            if p.pending is not None and p.pending.position is not None and p.pending.operation not in POINT_TO_POINT
        )
        silent = group.silent if group.members_known else ()
        # Everybody waits for every silent rank; beyond this many, a few waiters stand for all.
        self.silent = silent if len(silent) * len(group.members) <= MAX_SILENT_EDGES else silent[:SAMPLE]


def _collective_edges(
    rank: int,
    progress: GroupProgress,
    position: int,
    group: GroupFacts,
    ranks: Mapping[int, RankFacts],
    order: _MembersByProgress,
) -> set[WaitEdge]:
    edges = set()
    for enqueued, other in order.reach:
        if enqueued >= position:
            break
        if other != rank:
            edges.add(WaitEdge(rank, other, group.name, position, _reason(other, ranks, "not-entered")))
    for oldest, other, enqueued in order.pending:
        # Its oldest unfinished collective is one that this rank has finished: its device never ran it.
        if oldest > progress.completed:
            break
        if other != rank and enqueued >= position:
            edges.add(WaitEdge(rank, other, group.name, position, "device-behind"))
    for other in order.silent:
        if other != rank:
            edges.add(WaitEdge(rank, other, group.name, position, _reason(other, ranks, "silent")))
    return edges


def _p2p_edges(rank: int, call: PendingCall, group: GroupFacts, ranks: Mapping[int, RankFacts]) -> set[WaitEdge]:
    """A send waits for its partner unless the partner is in the matching receive, and the other way round."""
    peer = call.signature.peer if call.signature is not None else None
    if peer is None or not 0 <= peer < len(group.members):
        return set()
    partner = group.members[peer]
    if partner == rank or _has_matching_call(partner, rank, call.operation, group):
        return set()
    reason = "silent" if partner in group.silent else _reason(partner, ranks, "p2p-partner")
    return {WaitEdge(rank, partner, group.name, call.position, reason)}


def _has_matching_call(partner: int, rank: int, operation: str, group: GroupFacts) -> bool:
    """``partner`` is in a call towards ``rank`` that matches ``operation``: between two ranks calls run in their order,
    so that a receive queued behind a send that never ends is none. Those of one batch share their position."""
    entries = group.p2p.get(partner)
    if entries is None:
        return _stack_matches_call(partner, rank, operation, group)
    wanted = "recv" if operation.endswith("send") else "send"
    me = group.members.index(rank)
    first = None
    for index in range(len(entries)):
        signature, position = entries.signatures[int(entries.signature[index])], int(entries.position[index])
        if int(entries.state[index]) == 2 or signature.peer != me:
            continue
        first = position if first is None else first
        if position != first:
            return False
        if signature.operation.endswith(wanted):
            return True
    return False


def _stack_matches_call(partner: int, rank: int, operation: str, group: GroupFacts) -> bool:
    """Without records: its stack stands in the matching call, towards ``rank`` as far as its line tells."""
    call = group.pending(partner)
    if call is None or call.operation not in POINT_TO_POINT:
        return False
    peer = call.signature.peer if call.signature is not None else None
    wanted = "recv" if operation.endswith("send") else "send"
    return call.operation.endswith(wanted) and (peer is None or group.members[peer] == rank)


def _reason(rank: int, ranks: Mapping[int, RankFacts], otherwise: str) -> str:
    facts = ranks.get(rank)
    if facts is not None and facts.state in (RankState.CRASHED, RankState.ENDED_WITH_OTHERS, RankState.ENDED):
        return "dead"
    return otherwise


def _circles(left: set[int], out: Mapping[int, set[int]], into: Mapping[int, set[int]]) -> Iterator[tuple[int, ...]]:
    """Ranks that all wait for each other and for nobody else, among ``left``, of which each waits for others of it."""
    while left:
        last = _reached([min(left)], out)[-1]
        circle, feeding = _reached([last], out), set(_reached([last], into))
        if feeding.issuperset(circle):
            yield tuple(sorted(circle))
        left = left - feeding


def _reached(start: Iterable[int], steps: Mapping[int, set[int]]) -> list[int]:
    """``start`` and whatever ``steps`` lead to from there, the farthest last."""
    found = dict.fromkeys(start)
    waiting = deque(found)
    while waiting:
        for rank in steps.get(waiting.popleft(), ()):
            if rank not in found:
                found[rank] = None
                waiting.append(rank)
    return list(found)
