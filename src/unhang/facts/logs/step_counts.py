"""How many steps each rank ran or meant to run, from progress bars and step lines."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from unhang.evidence.items import Progress
from unhang.facts.model import Facts
from unhang.sentences import rank_ranges


@dataclass(frozen=True, slots=True)
class StepCounts:
    """``totals``: announced length of the same bar by rank. ``differ``: ranks announced different lengths."""

    totals: dict[int, int]
    label: str

    @property
    def differ(self) -> bool:
        """At least two ranks announced another number of steps."""
        return len(set(self.totals.values())) > 1

    @property
    def told(self) -> str:
        """``rank 1: 997, rank 0, 2: 1000``."""
        by_total: dict[int, list[int]] = defaultdict(list)
        for rank, total in self.totals.items():
            by_total[total].append(rank)
        return ", ".join(f"rank {rank_ranges(ranks)}: {total}" for total, ranks in sorted(by_total.items()))

    @property
    def short(self) -> tuple[int, ...]:
        """Ranks with the smallest announced number."""
        if not self.differ:
            return ()
        least = min(self.totals.values())
        return tuple(sorted(rank for rank, total in self.totals.items() if total == least))


def step_counts(facts: Facts) -> StepCounts:
    """The announced lengths of the loop that most ranks show; empty when fewer than two ranks show one."""
    by_label: dict[str, dict[int, Progress]] = defaultdict(dict)
    for known in facts.ranks.values():
        for progress in known.progress:
            if progress.total is not None:
                by_label[progress.label][known.rank] = progress
    best = max(sorted(by_label.items()), key=lambda item: (len(item[1]), _spread(item[1])), default=None)
    if best is None or len(best[1]) < 2:
        return StepCounts({}, "")
    return StepCounts({rank: p.total for rank, p in best[1].items() if p.total is not None}, best[0])


def _spread(rows: dict[int, Progress]) -> int:
    return len({p.total for p in rows.values()})
