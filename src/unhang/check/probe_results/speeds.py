"""Whether collectives crawl, below what a link should carry at the very least, and which pair or rank is slow.

A pair is held against the median of the rest, never against a mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from unhang.check.probe_results.probe_results import PairSpeed, ProbeResult, ProbeStep
from unhang.knowledge.thresholds import threshold, whole_threshold

MB = 1e6
LINK_SHARE = threshold("speeds.link_share")
"""Of what the driver says a link runs at. TCP on a healthy link carries most of it."""
GLOO_SINGLE_STREAM = whole_threshold("speeds.gloo_single_stream")
"""Gloo moves data with one thread over one connection; on a fast link that thread is the limit, not the link."""
GLOO_FLOOR = whole_threshold("speeds.gloo_floor")
NCCL_INSIDE_FLOOR = whole_threshold("speeds.nccl_inside_floor")
NCCL_BETWEEN_FLOOR = whole_threshold("speeds.nccl_between_floor")
"""By backend, and for NCCL whether nodes are joined: below these every link of that kind is wrong."""
SMALLEST = whole_threshold("speeds.smallest")
"""Smaller messages measure latency."""
FACTOR = threshold("speeds.pair_factor")
"""Slower than the median of the others by this factor counts as slow; links of one kind differ by less."""
MIN_PAIRS = whole_threshold("speeds.min_pairs")
MAX_SLOW_SHARE = threshold("speeds.max_slow_share")
"""Of the pairs: so many of a slower kind belong to the machine."""


@dataclass(frozen=True, slots=True)
class SlowCollectives:
    """Fastest measured collective, whose bus bandwidth is below ``floor`` (bytes per second)."""

    step: ProbeStep
    bus: float
    floor: float


def min_bandwidth(probed: ProbeResult) -> float:
    """The least bus bandwidth of a healthy link of this kind."""
    if probed.link is None:
        between = NCCL_BETWEEN_FLOOR if probed.several_nodes else NCCL_INSIDE_FLOOR
        return GLOO_FLOOR if probed.backend == "gloo" else between
    share = probed.link * LINK_SHARE
    return min(share, GLOO_SINGLE_STREAM) if probed.backend == "gloo" else share


def fastest(probed: ProbeResult) -> tuple[ProbeStep, float] | None:
    """The collective with the highest bus bandwidth on the world; None when none was measured."""
    found = [
        (step, step.bus)
        for step in probed.steps
        if step.scope == "world" and step.operation != "pair" and step.size >= SMALLEST and step.bus is not None
    ]
    return max(found, key=lambda pair: pair[1], default=None)


def find_slow_collectives(probed: ProbeResult) -> SlowCollectives | None:
    """Whether everything finished and even the fastest collective was too slow."""
    best = fastest(probed)
    if best is None or probed.failure is not None:
        return None
    floor = min_bandwidth(probed)
    return SlowCollectives(*best, floor) if best[1] < floor else None


@dataclass(frozen=True, slots=True)
class SlowPairs:
    """``ranks``: slow with every partner. ``pairs``: slow, and neither of their ranks is. ``usual``: of the rest."""

    ranks: tuple[int, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    usual: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.ranks or self.pairs)


def find_slow_pairs(pairs: Iterable[PairSpeed]) -> SlowPairs:
    """The slow ones among pairs of one kind (all within nodes, or all between nodes).

    Some pairs are needed, and most of them must be alike: a machine whose cards are joined in two ways has
    many pairs of the slower kind, and none of them is broken.
    """
    bandwidth = {tuple(sorted(pair.ranks)): pair.bandwidth for pair in pairs}
    if len(bandwidth) < MIN_PAIRS:
        return SlowPairs()
    slow = {pair for pair, own in bandwidth.items() if own * FACTOR < _median_without(bandwidth, pair)}
    ranks = _slow_with_all(list(bandwidth), slow)
    if not ranks and len(slow) > MAX_SLOW_SHARE * len(bandwidth):
        return SlowPairs()
    rest = [own for pair, own in bandwidth.items() if pair not in slow]
    alone = tuple(sorted((a, b) for a, b in slow if not {a, b} & set(ranks)))
    return SlowPairs(ranks, alone, median(rest)) if rest else SlowPairs()


def slow_pairs(probed: ProbeResult) -> tuple[SlowPairs, ...]:
    """Within nodes, then between nodes."""
    inside = [pair for pair in probed.pairs if len({probed.nodes[rank] for rank in pair.ranks}) == 1]
    between = [pair for pair in probed.pairs if pair not in inside]
    return tuple(found for found in (find_slow_pairs(inside), find_slow_pairs(between)) if found)


def _median_without(bandwidth: Mapping[tuple[int, ...], float], pair: tuple[int, ...]) -> float:
    """Of the pairs that share no rank with this one where there are enough; else of all others."""
    apart = [own for other, own in bandwidth.items() if not set(other) & set(pair)]
    others = [own for other, own in bandwidth.items() if other != pair]
    return median(apart if len(apart) >= MIN_PAIRS else others)


def _slow_with_all(pairs: Sequence[tuple[int, ...]], slow: set[tuple[int, ...]]) -> tuple[int, ...]:
    """Ranks with two partners or more that are slow with each of them, while some of those are not slow with others."""
    ranks = sorted({rank for pair in pairs for rank in pair})
    own = {rank: [pair for pair in pairs if rank in pair] for rank in ranks}
    bad = [rank for rank in ranks if len(own[rank]) > 1 and all(pair in slow for pair in own[rank])]
    return tuple(bad) if len(bad) * 2 < len(ranks) else ()
