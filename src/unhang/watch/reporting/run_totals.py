"""What the run came to, for the last two lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from unhang.watch.job.wait_detection import RankSample
from unhang.watch.pace.pace_record import StepHistory

MIN_SAMPLES = 20
MIN_WAITING = 0.5


@dataclass(slots=True)
class RunTotals:
    """Counts over all samples of all ranks, for the run's summary."""

    steps: int = 0
    ticks: int = 0
    waiting: Counter[int] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    over: list[str] = field(default_factory=list)
    """Of waits that ended by themselves."""
    failed_samples: int = 0
    """Samples that came to nothing because of us."""
    by_phase: dict[str, tuple[float, int]] = field(default_factory=dict)
    """By label of marked phases that ended: (seconds, how many), of the rank that spent most."""
    _history: StepHistory = field(default_factory=StepHistory)
    _step_sum: int = 0
    _ticks_since: int = 0
    _waiting_since: Counter[int] = field(default_factory=Counter)
    """Since a step ended last: counted when the next one does, so that a stall makes nobody the slowest."""

    def found(self, cause: str, *, instead_of: str | None = None) -> None:
        """A verdict was printed; ``instead_of``: the one before, which it takes the place of."""
        if instead_of in self.findings:
            self.findings.remove(instead_of)
        self.findings.append(cause)

    def note_stall_over(self, cause: str) -> None:
        """The wait of that verdict ended by itself."""
        if cause in self.findings:
            self.findings.remove(cause)
        self.over.append(cause)

    def add(self, samples: Mapping[int, RankSample]) -> None:
        """Count one sample of every rank."""
        for sample in samples.values():
            for one in sample.view.spent:
                self.by_phase[one.label] = max(self.by_phase.get(one.label, (0.0, 0)), (one.ns / 1e9, one.times))
        views = {rank: sample.view for rank, sample in samples.items() if sample.view.steps > 0}
        if views:
            first = views[min(views)]
            self.steps = max(self.steps, *(view.steps for view in views.values()))
            self._history.note(first.steps, first.last_step_ns)
        if any(sample.view.mark is not None for sample in samples.values()):
            return  # planned work says nothing of the pace of the steps
        if len(samples) > 1 and all(sample.view.steps > 0 and not sample.view.closed for sample in samples.values()):
            self._count_steps(sum(view.steps for view in views.values()))
            self._ticks_since += 1
            self._waiting_since.update(rank for rank, sample in samples.items() if sample.view.phase == "communication")

    def _count_steps(self, step_sum: int) -> None:
        if step_sum == self._step_sum:
            return
        self.ticks += self._ticks_since
        self.waiting.update(self._waiting_since)
        self._step_sum, self._ticks_since = step_sum, 0
        self._waiting_since.clear()

    @property
    def median_step_s(self) -> float | None:
        """Half of all steps took longer, half took less; None before two are known."""
        return self._history.median_s()

    def slowest(self, ranks: Mapping[int, object]) -> int | None:
        """The rank that waits least, where the others wait for more than half of the time; None without such a rank."""
        if self.ticks < MIN_SAMPLES or len(ranks) < 2:
            return None
        shares = {rank: self.waiting[rank] / self.ticks for rank in ranks}
        least = min(shares, key=lambda rank: (shares[rank], rank))
        others = [share for rank, share in shares.items() if rank != least]
        return least if min(others) >= MIN_WAITING and shares[least] <= min(others) / 2 else None
