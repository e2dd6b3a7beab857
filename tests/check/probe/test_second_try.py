"""A probe that fails once and not again was late; one that fails twice is told of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from unhang.check.judge import judge
from unhang.check.probe.probe import ProbeRun
from unhang.check.probe.probe_jobs import JobOutcome, ProbeJob, StepReport
from unhang.check.probe.process_location import ProcessLocation, locate_process
from unhang.check.probe_results.probe_results import ProbeResult
from unhang.host.inspection_result import InspectionResult, NodeInspection


@dataclass(slots=True)
class Late:
    """Ranks whose last one does not come to a job of all of them, ``times`` times."""

    places: Sequence[ProcessLocation]
    times: int
    missing: tuple[int, ...] = ()

    def run(self, job: ProbeJob) -> JobOutcome:
        everybody = tuple(range(len(self.places)))
        late = everybody in job.islands and self.times > 0
        self.times -= late
        lines = [StepReport(rank, 0, error="wait timeout") for rank in everybody[:-1]] if late else list(finished(job))
        return JobOutcome(job, tuple(lines))


def finished(job: ProbeJob) -> list[StepReport]:
    return [
        StepReport(rank, number, call_s=0.001)
        for number, step in enumerate(job.steps)
        for group in step.groups
        for rank in group
    ]


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize(("times", "failed"), [(0, False), (1, False), (2, True)])
def test_only_what_fails_twice_is_a_failure(ranks: int, times: int, failed: bool) -> None:
    participants = Late((locate_process("127.0.0.1"),) * ranks, times)

    probed = ProbeRun(participants, "gloo", 5.0).whole()

    assert (probed.failure is not None) is failed
    assert probed.failed_once is (times == 1)


def test_the_second_try_is_told() -> None:
    probed = ProbeRun(Late((locate_process("127.0.0.1"),) * 3, 1), "gloo", 5.0).whole()

    said = judge([NodeInspection("h1", results={ProbeResult: InspectionResult(probed)})], ["probe"])

    assert said.findings == ()
    assert any("the first attempt did not finish within 5 s" in str(item.what) for item in said.checked)
