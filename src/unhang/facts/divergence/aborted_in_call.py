"""Laggards without a record whose stacks show that they are blocked in another call."""

from __future__ import annotations

from unhang.facts.divergence.aborted_receivers import ranks_aborted_by_gloo
from unhang.facts.model import Facts, Stall
from unhang.facts.waiting.progress_from_stacks import waiting_activity


def gloo_sizes_differ(facts: Facts) -> bool:
    """Gloo met an amount that the call had not asked for, and ended a process."""
    return bool(facts.events_of("gloo.enforce")) or bool(ranks_aborted_by_gloo(facts.ranks, facts.events))


def laggards_wait_elsewhere(facts: Facts, stall: Stall) -> bool:
    """They stand in a collective, or in backward with its hooks, and do not move; or Gloo said that sizes differ."""
    if stall.reason not in ("silent", "dead"):
        return False
    laggards = [facts.ranks[rank] for rank in stall.laggards]
    inside = [a for known in laggards if known.recording is None and (a := waiting_activity(known)) is not None]
    still = all(known.moving is False for known in laggards)
    return len(inside) == len(laggards) and (still or gloo_sizes_differ(facts))
