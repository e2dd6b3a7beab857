"""Ranks that are stuck ending: in the destruction of groups, in exit handlers, in a last barrier."""

from __future__ import annotations

from unhang.facts.model import Facts
from unhang.findings import Phase


def ranks_in_teardown(facts: Facts) -> tuple[int, ...]:
    """Ranks whose stack stands in the teardown while nobody else is still training; empty when that is not so."""
    living = {rank: known.activity for rank, known in facts.ranks.items() if known.alive}
    seen = {rank: activity.phase for rank, activity in living.items() if activity is not None}
    return tuple(sorted(seen)) if set(seen.values()) <= {Phase.SHUTDOWN} else ()
