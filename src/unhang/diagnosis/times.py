"""When the stall began."""

from __future__ import annotations

from unhang.facts.model import Facts
from unhang.knowledge.numbers import moment


def stalled_since(facts: Facts) -> str | None:
    """ISO 8601 (UTC): when the first waiter entered the call it is still in, as dumps or logs tell; None otherwise."""
    stalled = {stall.group for stall in facts.stalls} | {s.group for s in facts.symmetric}
    stalled |= {d.group for d in facts.disagreements}
    began = [
        progress.pending.since_s
        for name in stalled
        for progress in facts.groups[name].progress.values()
        if progress.pending is not None and progress.pending.since_s
    ]
    if not began:
        began = [m.stalled_since_s for m in facts.manifests if m.stalled_since_s]
    if not began:
        return None
    first = moment(min(began))
    return first.isoformat(timespec="seconds") if first is not None else None
