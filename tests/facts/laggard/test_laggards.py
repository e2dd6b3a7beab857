"""What the laggards of real stalls are doing, in one word each."""

from __future__ import annotations

import typing
from pathlib import Path

import pytest

from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.facts.laggard.laggards import Doing, laggards_of

CASES = Path(__file__).parents[2] / "cases"
DOING = {
    "rank-frozen/hit_state_T": "Stopped",
    "rank-frozen/hit_lab_holds_interpreter_lock": "HoldsInterpreter",
    "rank-frozen/hit_waits_for_a_child_that_died": "AsleepAtLine",
    "deadlock-order/hit_an_actor_that_waits_for_who_asks": "ActorWait",
    "deadlock-order/hit_a_lock_held_by_who_waits_in_a_collective": "FileLockCycle",
    "rank-conditional-collective/hit_a_key_nobody_sets": "UnsetKey",
    "rank-frozen/hit_joins_a_thread_that_fills_a_queue": "JoinsWaitingThread",
    "rank-conditional-collective/hit_log_engine_ranks_without_a_step": "WithoutStep",
    "rank-conditional-collective/hit_a_guard_that_only_one_rank_reaches": "InGuard",
    "rank-conditional-collective/hit_new_group_on_some": "BranchDivision",
    "rank-crashed/hit_stands_in_its_handler": "HandlesException",
    "rank-crashed/hit_actor_idle_after_its_method_raised": "IdleActor",
    "uneven-data/hit_ended_with_zero": "EarlyLoopExit",
    "collective-mismatch/hit_one_group_more": "MadeFewerGroups",
    "timeout-too-short/hit_one_ranks_answers_are_longer": "LongerGeneration",
    "slow-data-loading/hit_loader_waits": "AwaitsBatch",
    "single-rank-work/hit_rank_0_saves": "OwnWork",
}


def doing(case: str) -> str:
    (at,) = laggards_of(build_facts(read_evidence([str(CASES / case / "input")])))
    return type(at.doing).__name__


@pytest.mark.parametrize("case", DOING)
def test_laggards_do_one_thing(case: str) -> None:
    assert doing(case) == DOING[case]


def test_every_answer_has_a_stall() -> None:
    assert {kind.__name__ for kind in typing.get_args(Doing)} == set(DOING.values())


@pytest.mark.parametrize(
    ("case", "first"),
    [
        pytest.param("single-rank-work/miss_stopped_in_a_marked_evaluation", "Stopped", id="in marked work"),
    ],
)
def test_where_nothing_runs_it_does_not_matter_where_it_stands(case: str, first: str) -> None:
    assert doing(case) == first


def test_who_keeps_the_interpreter_lock_and_computes_is_at_work_while_the_job_lives() -> None:
    assert doing("slow-data-loading/hit_a_regular_expression_in_the_data_set") == "AwaitsBatch"
    assert doing("rank-frozen/hit_another_thread_keeps_the_lock") == "HoldsInterpreter"
