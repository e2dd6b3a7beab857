"""A probe that fails once and not again was late; one that fails twice is told of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from unhang.check.judge import judge
from unhang.check.probe.network_place import Here, here
from unhang.check.probe.probe import Probe
from unhang.check.probe.probe_jobs import Job, Line
from unhang.check.probe.step_outcomes import Outcome
from unhang.check.probe_results.probe_results import Probed
from unhang.host.look import Look, Situation


@dataclass(slots=True)
class Late:
    """Ranks whose last one does not come to a job of all of them, ``times`` times."""

    places: Sequence[Here]
    times: int
    missing: tuple[int, ...] = ()

    def run(self, job: Job) -> Outcome:
        everybody = tuple(range(len(self.places)))
        late = everybody in job.islands and self.times > 0
        self.times -= late
        lines = [Line(rank, 0, error="wait timeout") for rank in everybody[:-1]] if late else list(finished(job))
        return Outcome(job, tuple(lines))


def finished(job: Job) -> list[Line]:
    return [
        Line(rank, number, call_s=0.001)
        for number, step in enumerate(job.steps)
        for group in step.groups
        for rank in group
    ]


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize(("times", "failed"), [(0, False), (1, False), (2, True)])
def test_only_what_fails_twice_is_a_failure(ranks: int, times: int, failed: bool) -> None:
    company = Late((here("127.0.0.1"),) * ranks, times)

    probed = Probe(company, "gloo", 5.0).whole()

    assert (probed.failure is not None) is failed
    assert probed.failed_once is (times == 1)


def test_the_second_try_is_told() -> None:
    probed = Probe(Late((here("127.0.0.1"),) * 3, 1), "gloo", 5.0).whole()

    said = judge([Situation("h1", looks={Probed: Look(probed)})], ["probe"])

    assert said.findings == ()
    assert any("a first try did not finish within 5 s" in str(item.what) for item in said.checked)
