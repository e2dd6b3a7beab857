"""Versions: exact known-bad ones are findings, ranges one note a package, and what cannot be known is said."""

from __future__ import annotations

import pytest

from unhang.check.environment.collect_versions import collect
from unhang.check.environment.environment import Versions
from unhang.check.judge import judge
from unhang.findings import Severity, Verdict
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.host.machine import Machine
from unhang.program.launch.planned_job import PlannedJob


def ask(**versions: str) -> Verdict:
    return judge([NodeInspection("h", results={Versions: InspectionResult(Versions(versions))})], ["versions"])


class Shelf(Machine):
    """A machine with these packages and no others."""

    def __init__(self, **packages: str) -> None:
        super().__init__(environment={})
        self._packages = packages

    def installed(self, package: str) -> str:
        return self._packages.get(package.replace("-", "_"), "")


def test_an_exact_known_bad_release_slows_and_its_neighbour_does_not() -> None:
    bad, good = ask(torch="2.7.0"), ask(torch="2.7.1")

    assert next(finding.severity for finding in bad.findings if "2.7.0:" in str(finding.summary)) is Severity.SLOWS
    assert all(finding.severity is Severity.NOTE for finding in good.findings)


def test_defects_of_ranges_are_one_note() -> None:
    verdict = ask(nccl="2.20.5")

    assert [(finding.subject, finding.severity) for finding in verdict.findings] == [("nccl", Severity.NOTE)]


def test_a_claim_that_nothing_confirms_is_a_note_with_the_release_to_go_back_to() -> None:
    (finding,) = ask(transformers="4.50.0.dev0").findings

    assert finding.severity is Severity.NOTE
    assert "said to" in str(finding.summary)
    assert [str(remedy.title) for remedy in finding.remedies] == ["Go back to transformers 4.49.0"]


@pytest.mark.parametrize("release", ["4.49.0", "4.48.3", "4.51.0"])
def test_the_release_that_helped_and_its_neighbours_are_not_reported(release: str) -> None:
    assert ask(transformers=release).findings == ()


def test_the_release_that_helped_is_named_as_such() -> None:
    said = [str(line.what) for line in ask(transformers="4.49.0").checked]

    assert any("4.49.0 is the release to go back to from 4.50.0" in line for line in said)


def test_a_defect_that_a_release_fixed_sends_older_ones_there_and_never_it_itself() -> None:
    (older,) = ask(deepspeed="0.12.6").findings

    assert "older than 0.13" in " ".join(map(str, older.because))
    assert [str(remedy.title) for remedy in older.remedies] == ["Update DeepSpeed to 0.13 or newer"]
    assert ask(deepspeed="0.13").findings == ask(deepspeed="0.13.1").findings == ()


def test_a_defect_between_two_releases_has_two_ways_out() -> None:
    (finding,) = ask(nccl="2.28.9").findings

    assert "from 2.27 on, fixed in 2.29.2" in " ".join(map(str, finding.because))
    assert not any("from 2.27 on" in str(because) for one in ask(nccl="2.29.2").findings for because in one.because)


@pytest.mark.parametrize(
    ("packages", "assume", "nccl", "origin"),
    [
        ({"torch": "2.8.0+cu128", "nvidia_nccl_cu12": "2.27.3"}, {}, "2.27.3", None),
        ({"torch": "2.8.0"}, {}, "2.27.3", "ships with torch 2.8.0"),
        ({"torch": "2.8.0", "nvidia_nccl_cu12": "2.27.3"}, {"torch": "2.4"}, "2.20.5", "ships with torch 2.4"),
        ({"torch": "2.13.0+cpu"}, {}, None, None),
        ({"torch": "2.8.0"}, {"nccl": "2.19.4"}, "2.19.4", "assumed"),
    ],
)
def test_which_nccl_counts(
    packages: dict[str, str], assume: dict[str, str], nccl: str | None, origin: str | None
) -> None:
    ((_, found),) = collect(Shelf(**packages), PlannedJob(assume=assume))

    versions: Versions = found.found
    told = versions.origin.get("nccl")
    assert (versions.of.get("nccl"), told and str(told)) == (nccl, origin)


def test_without_torch_it_says_how_to_go_on() -> None:
    ((kind, found),) = collect(Shelf(), PlannedJob())

    verdict = judge([NodeInspection("h", results={kind: found})], ["versions"])
    assert [gap.how for gap in verdict.not_checked] == ["unhang check --assume torch=2.8"]
