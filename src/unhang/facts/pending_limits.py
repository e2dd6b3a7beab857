"""When the pending collectives run out of time."""

from __future__ import annotations

from unhang.facts.model import Facts


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
