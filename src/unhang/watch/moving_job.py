"""A job that moves: who slows it down, whether its ranks call the same, how many collectives a step has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from unhang.watch import saved_sample
from unhang.watch.job.wait_detection import RankSample
from unhang.watch.pace.call_digests import CallDigest
from unhang.watch.pace.call_drift import CallDriftWatch
from unhang.watch.pace.pace_over_nodes import SlowestRank
from unhang.watch.pace.step_period import StepPeriodSearch
from unhang.watch.pace.straggler_watch import StragglerWatch
from unhang.watch.reporting import saved_slow_verdict
from unhang.watch.reporting.verdict_summary import VerdictLevel, VerdictSummary
from unhang.watch.verdict.diagnosis_child import DiagnosisChild
from unhang.watch.verdict.evidence_request import SAMPLE_PAUSE_S, EvidenceRequest

if TYPE_CHECKING:
    from unhang.watch.watcher import Watcher

LONG_STEP_S = 5.0
STRAGGLER_SAMPLES = 4
MAX_SAMPLE_PAUSE_S = 5.0


class MovingJob:
    """Beside one watcher."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self.stragglers = StragglerWatch()
        self._rhythm = StepPeriodSearch(watcher.records, watcher.folder.path / "dumps")
        self.drift = CallDriftWatch(watcher.records, watcher.folder.path)
        self._looks: set[int] = set()
        """Numbers of samples of a job that moves; the others are of a wait."""
        self._said: set[tuple[object, ...]] = set()

    @property
    def call_digests(self) -> list[CallDigest]:
        """What our ranks called, for other nodes."""
        return self.drift.call_digests

    def is_ours(self, child: DiagnosisChild) -> bool:
        """Whether ``child`` is a sample of ours."""
        return child.number in self._looks

    def tick(self, samples: Mapping[int, RankSample]) -> None:
        """Called at every sample of all ranks."""
        watcher = self._watcher
        self._follow_straggler(samples)
        if watcher.episode is None and watcher.child is None:
            self._follow_drift()
        elif watcher.child is None and watcher.episode is not None and watcher.episode.snapshot.waited_s <= LONG_STEP_S:
            self._learn_step_period()  # of a job that only gets on slowly

    def cancel_requests(self) -> None:
        """A sample is about to begin, and asks for dumps itself."""
        self._rhythm.end()
        self.drift.end()

    def as_pace_request(self, order: EvidenceRequest, samples: int) -> EvidenceRequest:
        """``order`` as a sample of a job that moves at the pace of a rank."""
        pace = self.stragglers.record.document()
        return replace(
            order, samples=samples, earlier_dumps=samples > 2, pace=pace, sample_pause_s=self._sample_pause_s(samples)
        )

    def hear(self, answer: tuple[VerdictSummary, str] | None) -> None:
        """What a sample of ours came to."""
        watcher = self._watcher
        if answer is not None and answer[0].level == VerdictLevel.SLOW.value:
            saved_slow_verdict.save(watcher.folder.path, saved_sample.SAMPLE_PARTS)
            if answer[0].identity_key not in self._said:
                self._said.add(answer[0].identity_key)
                watcher.report_verdict(*answer)
                watcher.totals.findings.append(answer[0].cause)
            return
        if "collective-mismatch" not in watcher.totals.findings:
            self.drift.try_again()
        if watcher.episode is None:
            saved_sample.discard(watcher.folder.path)

    def _follow_straggler(self, samples: Mapping[int, RankSample]) -> None:
        """A job that moves at the pace of one rank: sample that rank a few times in a row, now and then."""
        watcher = self._watcher
        waits = watcher.episode is not None and watcher.episode.snapshot.waited_s > LONG_STEP_S
        slow = None if waits or watcher.ended_episode is not None else watcher.nodes.slowest(samples)
        if slow is None or watcher.child is not None:
            return
        self._look(slow)

    def _follow_drift(self) -> None:
        """What the ranks of a moving job called is compared rarely; calls that differ are looked into once."""
        if self._watcher.ends():
            return  # the dumps the others make now are wanted
        most = self._learn_step_period()
        if self._rhythm.pid is None and self._watcher.ended_episode is None:
            compared = self.drift.tick(most)
            if compared is not None:
                self._look(None, compared=compared)
            elif nodes := self._watcher.nodes.nodes_with_other_calls(self.drift.checks):
                self._look(None, between=nodes)

    def _learn_step_period(self) -> int:
        """How many collectives have been completed, and how many a step has."""
        members = self._watcher.members.by_rank.values()
        most = max((g.completed for m in members for g in m.view.groups), default=0)
        counted = any(m.view.step_source == "guards" for m in members)
        if self.drift.pid is None and not counted:
            self._rhythm.tick(most)
        return most

    def _look(self, slow: SlowestRank | None, *, compared: bytes = b"", between: Sequence[int] = ()) -> None:
        watcher = self._watcher
        order = watcher.next_request(None, with_stacks=False)
        self._looks.add(order.number)
        order = self.as_pace_request(order, STRAGGLER_SAMPLES if slow is not None else 2)
        order = watcher.nodes.with_remote_pace(order, slow) if slow is not None else replace(order, compared=compared)
        order = watcher.nodes.with_remote_calls(order, list(between)) if between else order
        watcher.child = DiagnosisChild.start(order, watcher.folder, waited_s=0.0, width=watcher.plan.width)

    def _sample_pause_s(self, samples: int) -> float:
        """Seconds: samples of a job that moves span more than a step; within one, every wait looks like a stall."""
        members = self._watcher.members.by_rank.values()
        step_s = max((m.view.step_mean_ns for m in members), default=0.0) / 1e9
        return max(SAMPLE_PAUSE_S, min(MAX_SAMPLE_PAUSE_S, 1.3 * step_s / max(1, samples - 1)))
