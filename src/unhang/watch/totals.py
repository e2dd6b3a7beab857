"""What the run came to, for the last two lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from unhang.watch.detection import RankLook
from unhang.watch.step_history import StepHistory

LEAST_LOOKS = 20
LEAST_WAITING = 0.5


@dataclass(slots=True)
class Totals:
    """Counts over all looks at all ranks."""

    steps: int = 0
    ticks: int = 0
    waiting: Counter[int] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    _history: StepHistory = field(default_factory=StepHistory)

    def add(self, looks: Mapping[int, RankLook]) -> None:
        """Count one look at every rank."""
        views = {rank: look.view for rank, look in looks.items() if look.view.steps > 0}
        if views:
            first = views[min(views)]
            self.steps = max(self.steps, *(view.steps for view in views.values()))
            self._history.note(first.steps, first.last_step_ns)
        if len(looks) > 1 and all(look.view.steps > 0 and not look.view.closed for look in looks.values()):
            self.ticks += 1
            self.waiting.update(rank for rank, look in looks.items() if look.view.phase == "communication")

    @property
    def median_step_s(self) -> float | None:
        """Half of all steps took longer, half took less; None before two are known."""
        return self._history.median_s()

    def slowest(self, ranks: Mapping[int, object]) -> int | None:
        """The rank that waits least, where the others wait for more than half of the time; None without such a rank."""
        if self.ticks < LEAST_LOOKS or len(ranks) < 2:
            return None
        shares = {rank: self.waiting[rank] / self.ticks for rank in ranks}
        least = min(shares, key=lambda rank: (shares[rank], rank))
        others = [share for rank, share in shares.items() if rank != least]
        return least if min(others) >= LEAST_WAITING and shares[least] <= min(others) / 2 else None
