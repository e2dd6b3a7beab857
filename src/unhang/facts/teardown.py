"""Ranks that are stuck ending: in the destruction of groups, in exit handlers, in a last barrier."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.facts.model import Facts
from unhang.findings import Certainty, Phase


@dataclass(frozen=True, slots=True)
class Teardown:
    """The ranks, and how sure it is that this is what holds the job."""

    ranks: tuple[int, ...]
    certainty: Certainty


def ranks_in_teardown(facts: Facts) -> Teardown | None:
    """Ranks whose stack stands in the teardown while nobody else is still training; None when that is not so."""
    ending = []
    for rank, known in facts.ranks.items():
        if not known.alive or known.activity is None:
            continue
        if known.activity.phase is not Phase.SHUTDOWN:
            return None
        ending.append(rank)
    if not ending:
        return None
    seen_all = not facts.ranks_missing
    return Teardown(tuple(sorted(ending)), Certainty.CERTAIN if seen_all else Certainty.LIKELY)
