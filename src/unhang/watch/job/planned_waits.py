"""A wait for work that its author marked (``unhang.phase``): long, and meant to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unhang.watch.job.wait_detection import RankActivity, RankSample, WaitSnapshot
from unhang.wire.record_views import MarkedPhase


@dataclass(frozen=True, slots=True)
class PlannedWait:
    """The marked phase of the laggard ``rank``. ``gone_s``: since it began; ``at_most_s``: its author's bound or
    None."""

    rank: int
    label: str
    gone_s: float
    at_most_s: float | None

    @property
    def over(self) -> bool:
        """It takes longer than its author allowed."""
        return self.at_most_s is not None and self.gone_s > self.at_most_s


def planned_wait(now_ns: int, snapshot: WaitSnapshot, samples: Mapping[int, RankSample]) -> PlannedWait | None:
    """The marked work that all waiters of ``snapshot`` wait for; None where a laggard marked nothing, or cannot go on.

    A rank that stands still inside a mark without a bound may as well be stuck: nothing says that it is meant.
    """
    found = []
    for rank in snapshot.laggards:
        mark = samples[rank].view.mark if rank in samples else None
        if mark is None or snapshot.doing[rank] not in (RankActivity.BUSY, RankActivity.IDLE, RankActivity.WAITING):
            return None
        if mark.at_most_ns < 0 and snapshot.doing[rank] is RankActivity.IDLE:
            return None
        found.append(_from_mark(now_ns, rank, mark))
    return max(found, key=lambda one: (one.over, one.gone_s, -one.rank), default=None)


def _from_mark(now_ns: int, rank: int, mark: MarkedPhase) -> PlannedWait:
    at_most_s = mark.at_most_ns / 1e9 if mark.at_most_ns >= 0 else None
    return PlannedWait(rank, mark.label, max(0.0, (now_ns - mark.since_ns) / 1e9), at_most_s)
