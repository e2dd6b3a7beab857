"""A loop whose steps take longer and longer, as its own lines tell, and since which step."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from unhang.evidence.items import Progress
from unhang.facts.model import Facts
from unhang.facts.said import first_attempt
from unhang.facts.stages import is_preparing
from unhang.findings import Evidence, Source
from unhang.knowledge.thresholds import threshold, whole_threshold

LEAST_STEPS = whole_threshold("step_pace.least_steps")
SLOWER = threshold("step_pace.slower")
"""The last steps take at least this many times as long as the first ones."""
STILL_MOVES = threshold("step_pace.still_moves")
"""So many times a step's usual duration may lie between the last step and the end of the job."""
DIP_SHARE = threshold("step_pace.dip_share")
"""Of the growth: so much faster a later window may be, where other programs want the processors too."""
_WINDOWS = whole_threshold("step_pace.windows")
_SMOOTHED = whole_threshold("step_pace.smoothed")


@dataclass(frozen=True, slots=True)
class GrowingSteps:
    """Steps took ``before_s`` at first and ``now_s`` at last; they have been longer since ``since_step``."""

    label: str
    rank: int | None
    before_s: float
    now_s: float
    since_step: int
    last_s: float
    """When the last of them was over (seconds since the epoch)."""
    evidence: Evidence


def growing_steps(facts: Facts) -> GrowingSteps | None:
    """The loop that slowed most; None when all keep their pace or too few steps carry a time."""
    found = [g for log in facts.logs for p in log.progress if (g := _growing(p)) is not None]
    return max(found, key=lambda g: g.now_s / g.before_s, default=None)


def slowed_to_its_end(facts: Facts) -> GrowingSteps | None:
    """The loop that had grown slow and still moved when somebody ended the job; None where it may have stood still."""
    ends = [e.time_s for e in first_attempt(facts.events_of("te.signal", "slurm.cancel")) if e.time_s is not None]
    growing = growing_steps(facts) if ends else None
    if growing is None or not 0 <= ends[0] - growing.last_s <= STILL_MOVES * growing.now_s:
        return None
    return growing


def _growing(progress: Progress) -> GrowingSteps | None:
    if is_preparing(progress):
        return None
    paces = _paces(progress)
    if len(paces) < LEAST_STEPS:
        return None
    size = len(paces) // _WINDOWS
    windows = [median(pace for _, pace in paces[i * size : (i + 1) * size]) for i in range(_WINDOWS)]
    fastest = windows.index(min(windows))  # steps may get faster first: on a machine that was busy as they began
    before, now = max(windows[: fastest + 1]), windows[-1]
    if before <= 0 or now < before * SLOWER:
        return None
    if any(a - b > DIP_SHARE * (now - before) for a, b in pairwise(windows[fastest:])):
        return None  # it recovered in between
    return GrowingSteps(
        label=progress.label,
        rank=progress.rank,
        before_s=before,
        now_s=now,
        since_step=_since(paces, before * (1 + SLOWER) / 2),
        last_s=max(time_s for _, time_s in progress.recent if time_s is not None),
        evidence=Evidence(Source(progress.source.path, progress.last_line), progress.last_text, progress.rank),
    )


def _paces(progress: Progress) -> list[tuple[int, float]]:
    """(step, seconds per step) between lines that carry a time."""
    timed = [(step, time_s) for step, time_s in progress.recent if time_s is not None]
    return [
        (step, (time_s - earlier) / (step - previous))
        for (previous, earlier), (step, time_s) in pairwise(timed)
        if step > previous and time_s > earlier
    ]


def _since(paces: list[tuple[int, float]], limit: float) -> int:
    """The step after which the running median never falls below ``limit`` again."""
    since = paces[-1][0]
    for index in range(len(paces) - _SMOOTHED, -1, -1):
        if median(pace for _, pace in paces[index : index + _SMOOTHED]) < limit:
            break
        since = paces[index][0]
    return since
