"""Deleting any one rule turns at least one case red."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.test_cases import broken_promises, case_folders, expected
from unhang.causes.detector import Detector
from unhang.diagnosis.detectors import ALL_DETECTORS
from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.facts.model import Facts
from unhang.findings import Cause

ANY_CAUSE = "unknown_stated"
"""Reads words, and names the cause that they mean."""


@cache
def facts_of(folder: Path) -> Facts:
    return build_facts(read_evidence([str(folder / "input")]))


@pytest.mark.parametrize("rule", ALL_DETECTORS, ids=lambda rule: rule.name)
def test_without_this_rule_a_case_of_its_cause_is_red(rule: Detector) -> None:
    others = tuple(other for other in ALL_DETECTORS if other is not rule)
    causes = {rule.cause.value} if rule.name != ANY_CAUSE else {cause.value for cause in Cause}
    hits = [f for f in case_folders() if f.parent.name in causes and not f.name.startswith("miss_")]

    red = [f for f in hits if any(broken_promises(expected(f), diagnose(facts_of(f), others)))]

    assert hits
    assert red, f"no folder of tests/cases/{rule.cause.value} notices that {rule.name} is gone: add its hit_*"
