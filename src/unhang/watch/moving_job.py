"""A job that moves: who slows it down, whether its ranks call the same, how many collectives a step has.

The last is read from a recording: the period of what the ranks call.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from unhang.watch.dump_requests import dump_times, open_control, remove_unchanged, take_dumps
from unhang.watch.job.job_ranks import JobRanks
from unhang.watch.job.wait_detection import RankSample, has_done_steps, is_in_communication
from unhang.watch.pace.call_drift import CallDriftWatch
from unhang.watch.pace.pace_over_nodes import NodePace, SlowestRank, find_slowest_rank, node_pace
from unhang.watch.pace.pace_record import PaceRecord, PaceSample, pace_sample
from unhang.watch.side_process import ForkedChild
from unhang.watch.verdict.evidence_request import SAMPLE_PAUSE_S, EvidenceRequest
from unhang.wire.control import Control
from unhang.wire.documents.verdict_summary import VerdictSummary

if TYPE_CHECKING:
    import numpy as np

    from unhang.evidence.items import RecorderDump
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


LONG_STEP_S = 5.0
STRAGGLER_SAMPLES, DRIFT_SAMPLES = 4, 2
MAX_SAMPLE_PAUSE_S = 5.0


class MovingJob:
    """What is followed of the ranks' steps and calls; ``folder`` is the run folder."""

    def __init__(self, records: Path, folder: Path) -> None:
        self.stragglers = StragglerWatch()
        self.drift = CallDriftWatch(records, folder)
        self._period = StepPeriodSearch(records, folder / "dumps")
        self._said: set[tuple[object, ...]] = set()

    def cancel_requests(self) -> None:
        """A sample is about to begin, and asks for dumps itself."""
        self._period.end()
        self.drift.end()

    def learn_step_period(self, members: JobRanks) -> int:
        """How many collectives a step has is looked for; returns how many have been completed."""
        views = [member.view for member in members.by_rank.values()]
        most = max((group.completed for view in views for group in view.groups), default=0)
        counted = any(view.step_source in ("guards", "optimizer") for view in views)
        if self.drift.child is None and not counted:
            self._period.tick(most)
        return most

    def take_late_rank(self) -> SlowestRank | None:
        """The rank that all others wait for by the last comparison of calls, told once."""
        late, self.drift.late = self.drift.late, None
        return SlowestRank(None, late, changed=False) if late is not None else None

    @property
    def is_period_known(self) -> bool:
        """Or nobody is looking for it just now."""
        return self._period.child is None

    def as_pace_request(self, request: EvidenceRequest, samples: int, members: JobRanks) -> EvidenceRequest:
        """``request`` as a sample of a job that moves: such samples span more than a step, because within one every
        wait looks like a stall."""
        step_s = max((member.view.step_mean_ns for member in members.by_rank.values()), default=0.0) / 1e9
        pause_s = max(SAMPLE_PAUSE_S, min(MAX_SAMPLE_PAUSE_S, 1.3 * step_s / max(1, samples - 1)))
        machine = {**request.machine, "pace.json": self.stragglers.record.pace().json()}
        return replace(request, samples=samples, earlier_dumps=samples > 2, machine=machine, sample_pause_s=pause_s)

    def is_new(self, summary: VerdictSummary) -> bool:
        """Whether this was not said yet; from now on it was. Who slows a job is seen at one line after the other."""
        same = (summary.cause, summary.ranks)
        known = same in self._said
        self._said.add(same)
        return not known


ROUNDS = 3
"""A period is believed when it was seen so many times in a row at the end of a recording."""
MIN_COLLECTIVES = 40
SAME_SHARE = 0.9
FIRST_AFTER_S = 3.0
AGAIN_TIMES = 3.0
WAIT_S = 2.0


def period_of(calls: Sequence[int]) -> int:
    """The shortest period at the end of ``calls``; 0 when there is none."""
    import numpy as np

    sequence = np.asarray(calls)
    for period in range(1, len(sequence) // ROUNDS + 1):
        tail = sequence[-period * ROUNDS :].reshape(ROUNDS, period)
        if (tail == tail[0]).all() and _explains(sequence, period):
            return period
    return 0


def _explains(sequence: np.ndarray[tuple[int, ...], np.dtype[np.int64]], period: int) -> bool:
    """A run of one call inside a longer step is no step: the period must explain most of the end."""
    tail = sequence[-max(period * 10, MIN_COLLECTIVES) :]
    return bool((tail[period:] == tail[:-period]).mean() > SAME_SHARE)


def collectives_per_step(recording: RecorderDump) -> int:
    """The period of the busiest group of ``recording``, by its calls with their sizes, else without: objects are packed
    into another size each time. 0 when it shows none."""
    import numpy as np

    entries = recording.entries
    own = ~entries.is_p2p
    if own.sum() < MIN_COLLECTIVES:
        return 0
    busiest = Counter(entries.group[own].tolist()).most_common(1)[0][0]
    calls = entries.signature[own & (entries.group == busiest)]
    names = [f"{signature.operation} {signature.input_dtypes}" for signature in entries.signatures]
    return period_of(calls) or period_of(np.unique(names, return_inverse=True)[1][calls])


@dataclass(slots=True)
class StepPeriodSearch:
    """Asks for dumps (without stacks) a few times in the life of a job, and tells the ranks what it found."""

    records: Path
    dumps: Path
    next_s: float = 0.0
    began_s: float = 0.0
    found: bool = False
    child: ForkedChild | None = None
    tries: int = 0

    def tick(self, max_collectives: int) -> None:
        """Called at every tick of a job in which nobody waits."""
        now_s = time.monotonic()
        if self.child is not None:
            if self.child.over():
                control = Control.open_read(self.records)
                self.found = control is not None and control.read().collectives_per_step > 0
                self.child = None
            return
        if self.found or self.tries >= 7 or max_collectives < MIN_COLLECTIVES:
            return
        if not self.began_s:
            self.began_s, self.next_s = now_s, now_s + FIRST_AFTER_S
        if now_s < self.next_s or dump_times(self.dumps):
            return  # what lies there is the evidence of a verdict, or a rank's last word
        self.tries += 1
        self.next_s = now_s + FIRST_AFTER_S * AGAIN_TIMES**self.tries
        self.child = ForkedChild(lambda: _search(self.records, self.dumps))

    def end(self) -> None:
        """Stop searching now: a sample is about to begin."""
        if self.child is not None:
            self.child.end()
            self.child = None


def _search(records: Path, dumps: Path) -> None:
    from unhang.evidence.flight_recorder.reading import read_recorder_dump
    from unhang.findings import Unread

    periods = Counter[int]()
    read = take_dumps(records, dumps, limit_s=WAIT_S)
    for path in sorted(read)[:4]:
        recording = read_recorder_dump(path, whole=True)
        if not isinstance(recording, Unread):
            periods[collectives_per_step(recording)] += 1
    remove_unchanged(read)
    found = periods.most_common(1)[0][0] if periods else 0
    control = open_control(records) if found else None
    if control is not None:
        control.now.collectives_per_step = found
        control.publish()
