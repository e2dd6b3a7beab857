"""Every case of the lab, run for real: its fault fires, and its bundle alone gets the right verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang_lab.catalog import CASES
from unhang_lab.expectation import find_mistakes
from unhang_lab.lab_case import LabCase
from unhang_lab.run_case import run_case

pytestmark = [pytest.mark.job, pytest.mark.timeout(180)]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_case_gets_its_verdict(case: LabCase, tmp_path_factory: pytest.TempPathFactory) -> None:
    # Not tmp_path: its name would carry the case's name into every path of the evidence.
    bundle = run_case(case, tmp_path_factory.mktemp("run") / "job")
    if case.expected.status == ("healthy",) and _crashed(bundle):
        bundle = run_case(case, tmp_path_factory.mktemp("again") / "job")  # Gloo's tear-down may end in SIGSEGV
    manifest = json.loads((bundle / "bundle.json").read_text())

    stalls = case.moment == "stall" and case.expected.status[0] == "hang"
    assert (manifest.get("stalled_since_s") is not None) == stalls
    verdict = diagnose(build_facts(read_evidence([str(bundle)])))
    assert find_mistakes(case, bundle, verdict) == [], _keep(bundle)


def _crashed(bundle: Path) -> bool:
    manifest = json.loads((bundle / "bundle.json").read_text())
    return any(process.get("exit_code") in (-6, -11) for process in manifest["processes"])


def _keep(bundle: Path) -> str:
    return f"the evidence is in {bundle}"
