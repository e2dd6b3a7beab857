"""A job that moves: who slows it down, whether its ranks call the same, how many collectives a step has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from unhang.watch.job.job_ranks import JobRanks
from unhang.watch.pace.call_drift import CallDriftWatch
from unhang.watch.pace.step_period import StepPeriodSearch
from unhang.watch.pace.straggler_watch import StragglerWatch
from unhang.watch.reporting.verdict_summary import VerdictSummary
from unhang.watch.verdict.evidence_request import SAMPLE_PAUSE_S, EvidenceRequest

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
        counted = any(view.step_source == "guards" for view in views)
        if self.drift.child is None and not counted:
            self._period.tick(most)
        return most

    @property
    def is_period_known(self) -> bool:
        """Or nobody is looking for it just now."""
        return self._period.child is None

    def as_pace_request(self, request: EvidenceRequest, samples: int, members: JobRanks) -> EvidenceRequest:
        """``request`` as a sample of a job that moves: such samples span more than a step, because within one every
        wait looks like a stall."""
        step_s = max((member.view.step_mean_ns for member in members.by_rank.values()), default=0.0) / 1e9
        pause_s = max(SAMPLE_PAUSE_S, min(MAX_SAMPLE_PAUSE_S, 1.3 * step_s / max(1, samples - 1)))
        pace = self.stragglers.record.pace().json()
        return replace(request, samples=samples, earlier_dumps=samples > 2, pace=pace, sample_pause_s=pause_s)

    def is_new(self, summary: VerdictSummary) -> bool:
        """Whether this was not said yet; from now on it was."""
        known = summary.identity_key in self._said
        self._said.add(summary.identity_key)
        return not known
