"""What a probe's link should carry at the very least: below it a job crawls, whatever the cards are."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.facts.preflight.probe import Probed, Step

MB = 1e6
LINK_SHARE = 0.1
"""Of what the driver says a link runs at. TCP on a healthy link carries most of it."""
GLOO_SINGLE_STREAM = 40 * MB
"""Gloo moves data with one thread over one connection; on a fast link that thread is the limit, not the link."""
FLOORS = {
    ("gloo", False): 10 * MB,  # memory of one machine through loopback, on a crowded processor
    ("gloo", True): 10 * MB,  # not known: less than 100 Mbit/s
    ("nccl", False): 500 * MB,  # PCIe 1.0 x4 carries twice as much; P2P through a broken path far less
    ("nccl", True): 100 * MB,  # 1 Gbit/s
}
"""By backend and whether nodes are joined: below these every link of that kind is wrong."""
SMALLEST = 64 << 10
"""Smaller messages measure latency."""


@dataclass(frozen=True, slots=True)
class Crawl:
    """``step``: the fastest that was measured. ``floor``: what it should have reached, bytes a second."""

    step: Step
    bus: float
    floor: float


def floor_of(probed: Probed) -> float:
    """The least bus bandwidth of a healthy link of this kind."""
    if probed.link is None:
        return FLOORS[probed.backend, probed.several_nodes]
    share = probed.link * LINK_SHARE
    return min(share, GLOO_SINGLE_STREAM) if probed.backend == "gloo" else share


def fastest(probed: Probed) -> tuple[Step, float] | None:
    """The collective with the highest bus bandwidth on the world; None when none was measured."""
    found = [
        (step, step.bus)
        for step in probed.steps
        if step.scope == "world" and step.operation != "pair" and step.size >= SMALLEST and step.bus is not None
    ]
    return max(found, key=lambda pair: pair[1], default=None)


def crawl_of(probed: Probed) -> Crawl | None:
    """Whether everything finished and even the fastest collective was too slow."""
    best = fastest(probed)
    if best is None or probed.failure is not None:
        return None
    floor = floor_of(probed)
    return Crawl(*best, floor) if best[1] < floor else None
