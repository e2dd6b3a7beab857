"""A loop whose steps take longer than before, as its own lines tell, and since which step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from unhang.evidence.items import Progress
from unhang.facts.evidence_quotes import quote_progress
from unhang.facts.logs.event_timing import is_preparing
from unhang.facts.logs.log_statements import first_attempt
from unhang.facts.model import Facts, once
from unhang.facts.pace_change import MIN_STEPS, find_step_change
from unhang.findings import Evidence
from unhang.knowledge.thresholds import threshold

SLOWER = threshold("step_slowdown.slower")
"""The last steps take at least this many times as long as those before."""
STILL_MOVES = threshold("step_slowdown.still_moves")
"""So many times a step's usual duration may lie between the last step and the end of the job."""
_FEW = MIN_STEPS // 2
"""Times of a loop: fewer show no two paces, each by a median that outlives one outlier."""
TRAINER_LINES = "log"
"""The unit of runs that count lines of a log which tell no step."""


@dataclass(frozen=True, slots=True)
class StepSlowdown:
    """Steps took ``before_s`` at first and ``now_s`` at last; they have been longer since ``since_step``."""

    label: str
    unit: str
    before_s: float
    now_s: float
    since_step: int
    last_s: float | None
    """When the last of them was over (seconds since the epoch); None where the lines carry no time of day."""
    evidence: Evidence

    @property
    def times(self) -> float:
        """How many times as long."""
        return self.now_s / self.before_s


@once
def step_slowdown(facts: Facts) -> StepSlowdown | None:
    """The loop that slowed most; None when all keep their pace or too few steps carry a time."""
    found = [g for log in facts.logs for p in log.progress if (g := _slowdown(p)) is not None]
    return max(found, key=lambda g: (g.unit != TRAINER_LINES, g.times), default=None)


def slowdown_until_end(facts: Facts) -> StepSlowdown | None:
    """The loop that had grown slow and still moved when somebody ended the job; None where it may have stood still."""
    ends = [e.time_s for e in first_attempt(facts.events_of("te.signal", "slurm.cancel")) if e.time_s is not None]
    growing = step_slowdown(facts) if ends else None
    if growing is None or growing.last_s is None:
        return None
    return growing if 0 <= ends[0] - growing.last_s <= STILL_MOVES * growing.now_s else None


def _slowdown(progress: Progress) -> StepSlowdown | None:
    if is_preparing(progress):
        return None
    told = paces(progress)
    change = find_step_change(told)
    if change is None or change.since_s < SLOWER * change.before_s:
        return None
    return StepSlowdown(
        label=progress.label,
        unit=progress.unit,
        before_s=change.before_s,
        now_s=median(pace for _, pace in told[-MIN_STEPS:]),
        since_step=change.step,
        last_s=max((time_s for _, time_s in progress.recent if time_s is not None), default=None),
        evidence=quote_progress(progress),
    )


class Grown(NamedTuple):
    """Seconds a step took before, and takes now."""

    before: float
    now: float


def few_slower_steps(progress: Progress) -> Grown | None:
    """Of a loop that slowed, with too few times to say since when."""
    seconds = [duration for _, duration in paces(progress)]
    if not _FEW <= len(seconds) < 2 * MIN_STEPS:
        return None
    smooth = [median(seconds[at : at + _FEW - 1]) for at in range(len(seconds) - _FEW + 2)]
    return Grown(min(smooth), smooth[-1]) if smooth[-1] >= SLOWER * min(smooth) > 0 else None


def paces(progress: Progress) -> list[tuple[int, float]]:
    """(step, seconds per step): from the times of the lines, else from what bars and lines themselves print."""
    timed = [(step, time_s) for step, time_s in progress.recent if time_s is not None]
    if timed:
        return _between(timed)
    printed = [value for _, value in progress.printed]
    if progress.elapsed_s is not None or all(later > earlier for earlier, later in pairwise(printed)):
        return _between(progress.printed)  # what only grows is a clock
    return list(progress.printed)


def _between(timed: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    return [
        (step, (time_s - earlier) / (step - previous))
        for (previous, earlier), (step, time_s) in pairwise(timed)
        if step > previous and time_s > earlier
    ]
