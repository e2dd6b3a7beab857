"""The wait-for graph made small: ranks that wait alike folded together, links a chain already tells left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter

from unhang.facts.model import WaitEdge

MAX_ROUNDS = 12
Links = dict[tuple[int, int], set[str]]
"""(number of the waiting fold, number of the awaited one) → ``group #position``."""


def equal_ranks(edges: Iterable[WaitEdge]) -> list[tuple[int, ...]]:
    """Ranks that wait for the same ranks and are waited for by the same."""
    waits: defaultdict[int, set[tuple[int, str, int | None, str]]] = defaultdict(set)
    awaited_by: defaultdict[int, set[int]] = defaultdict(set)
    for edge in edges:
        waits[edge.waiter].add((edge.awaited, edge.group, edge.position, edge.reason))
        awaited_by[edge.awaited].add(edge.waiter)
    same: defaultdict[object, list[int]] = defaultdict(list)
    for rank in sorted(set(waits) | set(awaited_by)):
        same[frozenset(awaited_by[rank]), frozenset(waits[rank])].append(rank)
    return [tuple(ranks) for ranks in same.values()]


def similar_ranks(edges: Iterable[WaitEdge], late: frozenset[int]) -> list[tuple[int, ...]]:
    """Ranks that wait in the same way for ranks that stand alike: a pipeline stage, the replicas of a shard."""
    waits: defaultdict[int, set[tuple[int, str]]] = defaultdict(set)
    for edge in edges:
        waits[edge.waiter].add((edge.awaited, edge.reason))
        waits[edge.awaited] |= set()
    kind: dict[int, object] = {rank: rank in late for rank in waits}
    count = len(set(kind.values()))
    for _ in range(MAX_ROUNDS):
        seen = {rank: (kind[rank], frozenset((kind[other], why) for other, why in waits[rank])) for rank in waits}
        numbers = {signature: number for number, signature in enumerate(dict.fromkeys(seen.values()))}
        kind = {rank: numbers[seen[rank]] for rank in waits}
        if len(numbers) == count:
            break
        count = len(numbers)
    same: defaultdict[object, list[int]] = defaultdict(list)
    for rank in sorted(waits):
        same[kind[rank]].append(rank)
    return [tuple(ranks) for ranks in same.values()]


def links_between(members: list[tuple[int, ...]], edges: Iterable[WaitEdge], names: dict[str, str]) -> Links:
    """Which fold waits for which, with at most six groups and positions each."""
    fold_of = {rank: number for number, ranks in enumerate(members) for rank in ranks}
    links: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    for edge in edges:
        waiter, awaited = fold_of.get(edge.waiter), fold_of.get(edge.awaited)
        if waiter is not None and awaited is not None and len(links[waiter, awaited]) < 6:
            position = "" if edge.position is None else f" #{edge.position}"
            links[waiter, awaited].add(f"{names.get(edge.group, edge.group)}{position}")
    return dict(links)


def awaited_of(count: int, links: Iterable[tuple[int, int]]) -> dict[int, set[int]]:
    """For each of ``count`` folds the other folds it waits for."""
    found: dict[int, set[int]] = {number: set() for number in range(count)}
    for waiter, awaited in links:
        if waiter != awaited:
            found[waiter].add(awaited)
    return found


def transitive_reduction(count: int, links: Links) -> Links:
    """``links`` without those that a chain of others already tells; all of them when there is a cycle."""
    next_ones = awaited_of(count, links)
    beyond: dict[int, set[int]] = {}
    try:
        for number in TopologicalSorter(next_ones).static_order():  # the awaited before who waits for them
            beyond[number] = next_ones[number].union(*(beyond[other] for other in next_ones[number]))
    except CycleError:
        return links
    return {
        (waiter, awaited): named
        for (waiter, awaited), named in links.items()
        if not any(awaited in beyond[other] for other in next_ones[waiter] if other != awaited)
    }
