"""Candidates never contradict what the log shows: the order of time, and who had come when somebody ended the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Cause, Certainty, Verdict

CASES = Path(__file__).parents[1] / "cases"
OF_PROGRAMS = {Cause.UNEVEN_DATA, Cause.COLLECTIVE_MISMATCH, Cause.RANK_CONDITIONAL_COLLECTIVE, Cause.SINGLE_RANK_WORK}


def verdict_on(case: str) -> Verdict:
    return diagnose(build_facts(read_evidence([str(CASES / case / "input")])))


def candidates(case: str) -> set[Cause]:
    return {candidate.cause for candidate in verdict_on(case).differential}


@pytest.mark.parametrize(
    "case", ["hit_log_ended_by_hand_in_the_first_barrier", "hit_log_ended_by_hand_and_the_launcher_says_so"]
)
def test_what_all_had_joined_is_no_fault_of_the_program(case: str) -> None:
    found = candidates(f"unknown/{case}")

    assert Cause.NETWORK_FAULT in found
    assert not found & {*OF_PROGRAMS, Cause.RANK_CRASHED, Cause.HOST_MEMORY}


def test_who_was_there_when_somebody_ended_the_job_had_not_crashed() -> None:
    found = candidates("unknown/unsure_log_ctrl_c_in_the_first_barrier")

    assert found
    assert not found & {Cause.RANK_CRASHED, Cause.HOST_MEMORY, Cause.GPU_OOM, Cause.UNEVEN_DATA}


def test_what_died_after_the_limit_is_no_candidate() -> None:
    verdict = verdict_on("rank-crashed/miss_log_segfault_after_the_limit")

    assert verdict.differential
    assert not {c.cause for c in verdict.differential} & {Cause.RANK_CRASHED, Cause.HOST_MEMORY}
    assert any("24 s after the limit" in str(c.summary) for c in verdict.findings[0].consequences)


def test_no_usual_cause_leads_where_somebody_ended_the_job() -> None:
    first = verdict_on("unknown/hit_log_ended_by_hand_in_the_first_barrier").findings[0]

    assert "by hand" in str(first.summary)
    assert "most often" not in str(first.summary)
    assert first.certainty is Certainty.LIKELY
