"""Find the rank the others always wait for, in a job that moves, and since when its steps grow slower."""

from __future__ import annotations

import statistics
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unhang.watch.job.wait_detection import RankSample, has_done_steps
from unhang.watch.pace.pace_over_nodes import NodePace, SlowestRank, find_slowest_rank, node_pace
from unhang.watch.pace.pace_record import PaceRecord, PaceSample, pace_sample
from unhang.wire.record_views import HIDDEN_COLLECTIVES, RecordView

if TYPE_CHECKING:
    from unhang.facts.pace.slow_rank_over_time import SlowRankPace

CHECK_EVERY_SAMPLES = 20
"""Samples of all ranks: about 5 s."""
REPEAT_PAUSE_SAMPLES = 240
"""Samples before the question is asked again: about a minute, and longer every time for the same slowness."""
LONG_RUN, LONG_TIMES = 5, 5
"""Samples without any progress: so many, or so many times the usual, are an interruption (a save), and no pace."""


@dataclass(slots=True)
class StragglerWatch:
    """Sees every sample of a job that moves."""

    record: PaceRecord = field(default_factory=PaceRecord)
    told: NodePace | None = None
    """What is sent to the other nodes about ours."""
    _run: list[dict[int, PaceSample]] = field(default_factory=list)
    _usual: deque[int] = field(default_factory=lambda: deque(maxlen=64))
    _progress: tuple[int, ...] = ()
    _job: tuple[tuple[int, int], ...] = ()
    _taken: int = 0
    _pauses: dict[tuple[int | None, bool], int] = field(default_factory=dict)
    _asked: Counter[tuple[int | None, bool]] = field(default_factory=Counter)

    def add(
        self,
        samples: Mapping[int, RankSample],
        others: Mapping[int, NodePace | None] | None = None,
        *,
        judges: bool = True,
    ) -> SlowestRank | None:
        """The rank that holds the others up, when it is time to sample it; else None.

        ``others``: what the other nodes reported, None where there are none; ``judges``: it is ours to say.
        """
        job = tuple((rank, sample.view.identity.pid) for rank, sample in sorted(samples.items()))
        if job != self._job:
            self._job, self.record = job, PaceRecord()
            self._run.clear()
        moves = len(samples) > (1 if others is None else 0) and all(
            has_done_steps(sample.view) and not sample.view.closed for sample in samples.values()
        )
        if not moves:
            self._run.clear()
            self.told = None
            return None
        self.record.note_steps(samples)
        self._take(samples)
        self._pauses = {same: left - 1 for same, left in self._pauses.items() if left > 1}
        if self._taken < CHECK_EVERY_SAMPLES:
            return None
        self._taken = 0
        if others is not None:
            self.told = node_pace(self.record)
        slow = self._slowest(others) if judges else None
        same = (slow.rank, slow.changed) if slow is not None else None
        if slow is None or same is None or same in self._pauses:
            return None
        self._pauses[same] = REPEAT_PAUSE_SAMPLES << min(self._asked[same], 10)
        self._asked[same] += 1
        return slow

    def _slowest(self, others: Mapping[int, NodePace | None] | None) -> SlowestRank | None:
        if others is not None:
            return find_slowest_rank(self.told, others)
        slow = self.slow()
        return SlowestRank(None, slow.rank, slow.change is not None) if slow is not None else None

    def slow(self) -> SlowRankPace | None:
        """Who holds the others up, as far as was seen here."""
        if not self.record.is_uneven():
            return None
        from unhang.facts.pace.slow_rank_over_time import slow_rank_pace

        return slow_rank_pace(self.record.pace())

    def _take(self, samples: Mapping[int, RankSample]) -> None:
        """Samples between two moves of the job count when the job moves again, and did not pause."""
        progress = tuple(max((g.enqueued for g in sample.view.groups), default=0) for sample in samples.values())
        longest = max(LONG_RUN, LONG_TIMES * (statistics.median(self._usual) if self._usual else 0))
        if progress != self._progress:
            self._progress = progress
            self._count(longest)
        if len(self._run) <= longest:  # one more than counts: then none does
            views = {rank: sample.view for rank, sample in samples.items()}
            self._run.append({r: pace_sample(view, waits=is_in_communication(view)) for r, view in views.items()})

    def _count(self, longest: float) -> None:
        if self._run:
            self._usual.append(len(self._run))
        if len(self._run) <= longest:
            for seen in self._run:
                self.record.add(seen)
            self._taken += len(self._run)
        self._run.clear()


def is_in_communication(view: RecordView) -> bool:
    """Whether a rank was seen where ranks wait for each other; backward is where gradients are exchanged."""
    return view.phase == "communication" or view.top.function in HIDDEN_COLLECTIVES
