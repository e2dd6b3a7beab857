"""The head says how long who had waited for whom, and when torch gives up; of what does not wait, or is not known,
nothing."""

from __future__ import annotations

from tests.test_cases import CASES, jobs_of
from unhang.report.html.late_ranks import waited_lines
from unhang.report.localizer import Localizer


def of_case(name: str, lang: str = "en") -> list[str]:
    job = jobs_of(CASES / name)[0]
    return waited_lines(job.verdict, job.facts, Localizer(lang))


def test_of_a_run_that_was_sampled_while_it_stood() -> None:
    name = "rank-frozen/hit_waits_for_a_child_that_died"
    assert of_case(name) == [
        "Rank 1 had waited 6 s for rank 0 at 10:02:24 UTC.",
        "Torch gives up at 10:32:18 UTC.",
    ]
    assert of_case(name, "zh") == [
        "rank 1 在等 rank 0，到 10:02:24 UTC 已等了 6 秒。",
        "torch 将在 10:32:18 UTC 放弃等待。",
    ]


def test_a_limit_that_had_passed_is_not_ahead() -> None:
    assert of_case("single-rank-work/hit_sleeps_beside_another_job_on_its_card")[1] == "The wait's timeout has passed"


def test_of_a_job_that_died_or_is_well_nothing_is_said() -> None:
    assert of_case("rank-crashed/hit_lab_killed") == []
    assert of_case("single-rank-work/hit_marked_and_within_its_bound_is_a_note") == []


def test_what_was_left_afterwards_tells_only_the_limit() -> None:
    assert of_case("single-rank-work/hit_rank_0_saves") == ["Torch allows a wait of 10 min."]
    assert of_case("single-rank-work/hit_rank_0_saves_stacks_only") == []
