"""Steps that mostly wait for their data, as their own lines tell: data time beside the time of the whole step."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from unhang.evidence.items import Progress
from unhang.facts.evidence_quotes import quote_progress
from unhang.facts.model import Facts
from unhang.findings import Evidence
from unhang.knowledge.thresholds import threshold, whole_threshold

MIN_STEPS = whole_threshold("data_wait_share.min_steps")
"""Lines: fewer are the start, when caches and workers are not warm yet."""
MIN_SHARE = threshold("data_wait_share.min_share")
"""Of the time of all steps, waited for data: from here on faster cards would change nothing."""
MIN_WAITS = whole_threshold("data_wait_share.min_waits")
"""Steps that waited longer than they computed: one or two may be an epoch's beginning."""


@dataclass(frozen=True, slots=True)
class DataWaitShare:
    """``share`` of the time of ``steps`` steps went into waiting for data; ``waits`` of them waited longer than they
    computed, the longest ``longest_s``, while computing takes ``compute_s``. ``every``: lines between two such steps,
    where it is always the same number."""

    rank: int | None
    share: float
    steps: int
    waits: int
    longest_s: float
    compute_s: float
    every: int | None
    evidence: Evidence


def data_wait_share(facts: Facts) -> DataWaitShare | None:
    """The loop that waits most for its data; None where no loop does, or no line tells."""
    found = [pace for log in facts.logs for progress in log.progress if (pace := _pace(progress)) is not None]
    return max(found, key=lambda pace: pace.share * pace.steps, default=None)


def _pace(progress: Progress) -> DataWaitShare | None:
    loads = progress.loads[1:]  # the first step always waits for the workers to start
    total_s = sum(all_s for _, _, all_s in loads)
    slow = [place for place, (_, waited_s, all_s) in enumerate(loads) if waited_s > all_s - waited_s]
    if len(loads) < MIN_STEPS or len(slow) < MIN_WAITS or total_s <= 0:
        return None
    share = sum(waited_s for _, waited_s, _ in loads) / total_s
    if share < MIN_SHARE:
        return None
    gaps = {later - earlier for earlier, later in pairwise(slow)}
    return DataWaitShare(
        rank=progress.rank,
        share=share,
        steps=len(loads),
        waits=len(slow),
        longest_s=max(waited_s for _, waited_s, _ in loads),
        compute_s=sorted(all_s - waited_s for _, waited_s, all_s in loads)[len(loads) // 2],
        every=gaps.pop() if len(gaps) == 1 else None,
        evidence=quote_progress(progress),
    )
