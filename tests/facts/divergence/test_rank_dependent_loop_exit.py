"""Ranks of which the rank itself says how many steps they make are told one thing, and nothing beside it."""

from __future__ import annotations

import pytest

from tests.test_cases import CASES
from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts


@pytest.mark.parametrize(
    "case",
    [
        "hit_a_while_loop_on_the_rank",
        "hit_one_rank_breaks_at_a_step",
        "hit_one_rank_returns_at_a_step",
        "hit_the_rank_says_how_many_steps",
        "unsure_only_a_name_says_it_is_the_rank",
    ],
)
def test_one_finding_and_the_remedy_at_the_line(case: str) -> None:
    found = diagnose(build_facts(read_evidence([str(CASES / "uneven-data" / case / "input")]))).findings

    assert [finding.detector for finding in found] == ["uneven_data"]
    assert "remove the rank from" in str(found[0].remedies[0].change)


def test_what_a_rank_finds_out_is_decided_together() -> None:
    folder = CASES / "uneven-data" / "miss_break_on_the_rank" / "input"
    first = diagnose(build_facts(read_evidence([str(folder)]))).findings[0]

    assert first.cause.value == "rank-conditional-collective"
    assert str(first.summary).startswith("rank 0 left the loop at line 9 on a test of the rank")
    assert [str(remedy.title) for remedy in first.remedies] == [
        "Make all ranks decide on the `break` at train.py:9 together"
    ]
