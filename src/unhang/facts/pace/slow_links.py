"""Between which machines what ranks send piles up, in a job that moves."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.facts.model import Facts


@dataclass(frozen=True, slots=True)
class SlowLink:
    """What ``ranks`` send piles up, and all of it goes to or comes from each of ``nodes``: one node, or the two ends of
    one way."""

    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    ways: tuple[str, ...]


def slow_link(facts: Facts) -> SlowLink | None:
    """None where nothing piles up, or between machines that have no one in common: then it is no one link."""
    host_of = {
        address: known.host for known in facts.ranks.values() for address in known.process.addresses if known.host
    }
    ranks = tuple(sorted(rank for rank, known in facts.ranks.items() if known.process.piled_up))
    ways = tuple(sorted({way for rank in ranks for way in facts.ranks[rank].process.piled_up}))
    ends = [set(way.split(">")) for way in ways]
    common = set.intersection(*ends) if ends else set()
    nodes = sorted({host for address in common if (host := host_of.get(address))})
    if not nodes or (len(common) == 1 and len(nodes) != 1):
        return None
    return SlowLink(ranks, tuple(nodes), ways)
