"""Whether a frozen rank can run again as it was: one that keeps the interpreter lock has code to change."""

from __future__ import annotations

import pytest

from tests.test_cases import CASES
from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts


@pytest.mark.parametrize(
    ("case", "advice"),
    [("hit_sleeps_with_the_lock", "after-change"), ("hit_state_T", "as-is")],
)
def test_only_a_rank_that_was_held_from_outside_runs_again_as_it_is(case: str, advice: str) -> None:
    folder = CASES / "rank-frozen" / case / "input"
    verdict = diagnose(build_facts(read_evidence([str(folder)])))

    assert verdict.restart is not None
    assert verdict.restart.advice == advice
