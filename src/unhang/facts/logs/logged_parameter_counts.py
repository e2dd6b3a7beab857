"""How many parameters each rank's model has, as DDP's own check prints it."""

from __future__ import annotations

import re
from collections import Counter

from unhang.facts.logs.log_statements import first_attempt
from unhang.facts.model import Facts

_COUNTS = re.compile(r"[Rr]ank (\d{1,7}) has (?:inconsistent )?(\d{1,12}) params")


def parameter_counts(facts: Facts) -> dict[int, int]:
    """Rank → number of parameters, for the ranks that the lines name."""
    texts = [event.text for event in first_attempt(facts.events_of("ddp.shape"))]
    texts += [t.message for t in facts.tracebacks if "DDP expects same model" in t.message]
    return {int(rank): int(count) for text in texts for rank, count in _COUNTS.findall(text)}


def outlier_models(counts: dict[int, int]) -> tuple[int, ...]:
    """Ranks whose number is not that of the majority; all of them when there is none; empty when all agree."""
    sizes = Counter(counts.values()).most_common(2)
    if len(sizes) < 2:
        return ()
    if sizes[0][1] == sizes[1][1]:
        return tuple(sorted(counts))
    return tuple(sorted(rank for rank, count in counts.items() if count != sizes[0][0]))
