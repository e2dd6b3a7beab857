"""What a probe's link should carry at the very least: below it a job crawls, whatever the cards are."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.check.probe_results.probe_results import ProbeResult, ProbeStep
from unhang.knowledge.thresholds import threshold, whole_threshold

MB = 1e6
LINK_SHARE = threshold("expected_speed.link_share")
"""Of what the driver says a link runs at. TCP on a healthy link carries most of it."""
GLOO_SINGLE_STREAM = whole_threshold("expected_speed.gloo_single_stream")
"""Gloo moves data with one thread over one connection; on a fast link that thread is the limit, not the link."""
GLOO_FLOOR = whole_threshold("expected_speed.gloo_floor")
NCCL_INSIDE_FLOOR = whole_threshold("expected_speed.nccl_inside_floor")
NCCL_BETWEEN_FLOOR = whole_threshold("expected_speed.nccl_between_floor")
"""By backend, and for NCCL whether nodes are joined: below these every link of that kind is wrong."""
SMALLEST = whole_threshold("expected_speed.smallest")
"""Smaller messages measure latency."""


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
