"""Versions: exact known-bad ones are findings, ranges one note a package, and what cannot be known is said."""

from __future__ import annotations

import pytest

from unhang.checks.machine import Machine
from unhang.checks.plan import Plan
from unhang.checks.versions import look
from unhang.diagnosis.preflight import judge
from unhang.facts.preflight.situation import Look, Situation
from unhang.facts.preflight.versions import Versions
from unhang.findings import Severity, Verdict


def ask(**versions: str) -> Verdict:
    return judge([Situation("h", looks={Versions: Look(Versions(versions))})], ["versions"])


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


def test_a_claim_that_nothing_confirms_is_a_note() -> None:
    verdict = ask(transformers="4.49.0")

    assert [finding.severity for finding in verdict.findings] == [Severity.NOTE]
    assert "nothing that was read confirms it" in str(verdict.findings[0].summary)


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
    ((_, found),) = look(Shelf(**packages), Plan(assume=assume))

    versions: Versions = found.found
    assert (versions.of.get("nccl"), versions.origin.get("nccl")) == (nccl, origin)


def test_without_torch_it_says_how_to_go_on() -> None:
    ((kind, found),) = look(Shelf(), Plan())

    verdict = judge([Situation("h", looks={kind: found})], ["versions"])
    assert [gap.how for gap in verdict.not_checked] == ["unhang check --assume torch=2.8"]
