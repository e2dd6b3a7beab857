"""When the pending collectives run out of time."""

from __future__ import annotations

from unhang.facts.model import Facts
from unhang.facts.waiting.guard_waits import awaited_guard


def limit_at_s(facts: Facts, stalled_since_s: float | None = None) -> float | None:
    """The first moment (seconds since the epoch) at which a pending collective's limit passes; None when nothing tells.

    ``stalled_since_s`` stands in where a dump does not say when its call began.
    """
    moments = []
    for group in facts.groups.values():
        for progress in group.progress.values():
            call = progress.pending
            if call is None or call.timeout_ms is None or call.timeout_ms <= 0:
                continue
            since_s = call.since_s or stalled_since_s
            if since_s is not None:
                moments.append(since_s + call.timeout_ms / 1000)
    return min(moments, default=None)


def guard_limit(facts: Facts) -> tuple[float, str] | None:
    """When the first guard in which a rank waits gives up (seconds since the epoch), and which; None: none does."""
    taken_s = max((manifest.taken_s for manifest in facts.manifests if manifest.taken_s is not None), default=None)
    if taken_s is None:
        return None
    waits = [(rank, rank.guard_wait) for rank in facts.ranks.values() if rank.guard_wait is not None]
    limits = [
        (taken_s - wait.waited_s + wait.limit_s, awaited_guard(rank))
        for rank, wait in waits
        if wait.limit_s is not None
    ]
    return min(limits, default=None)
