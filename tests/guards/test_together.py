"""together(): what only some ranks reach is an error with the rank and its line, not a timeout."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.guards import ranks
from unhang.errors import GuardError, UsageError
from unhang.guards.together import together

pytestmark = pytest.mark.job
HERE = Path(__file__).name


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.endswith(text))


def all_come(rank: int) -> str:
    for _ in range(3):
        together("save")
        with together("evaluation"):
            together("inner")
    return "done"


def only_rank_0(rank: int) -> None:
    together("start")
    if rank == 0:
        together("save", timeout_s=4)  # only rank 0
    else:
        time.sleep(60)  # elsewhere


def one_more(rank: int) -> None:
    for _ in range(2):
        together("step")
    if rank == 0:
        together("step", timeout_s=1.5)
    time.sleep(10)


def crossed(rank: int) -> None:
    together("save" if rank == 0 else "evaluation", timeout_s=5)


def never_a_guard(rank: int) -> None:
    if rank == 0:
        together("save", timeout_s=1)
    time.sleep(60)


def raises_inside(rank: int) -> None:
    with together("save"):
        if rank == 1:
            raise ValueError("disk full")


def raises_an_error_of_ours_inside(rank: int) -> None:
    with together("save", finish_s=300):
        if rank == 1:
            raise GuardError("its own")
    time.sleep(6)


def dies_inside(rank: int) -> None:
    with together("save"):
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def is_stopped(rank: int) -> None:
    together("start")
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    together("save", timeout_s=1.5)


def too_late(rank: int) -> None:
    if rank == 1:
        time.sleep(6)
    together("save", timeout_s=1)


def test_ranks_that_all_come_go_on() -> None:
    assert [outcome.get() for outcome in ranks.run_ranks(all_come, world_size=3)] == ["done"] * 3


def test_a_rank_elsewhere_is_named_with_its_line_and_the_test_of_the_rank() -> None:
    outcome = ranks.run_ranks(only_rank_0, until=0)[0]

    assert outcome.error == "RanksMissing"
    assert outcome.attributes["ranks"] == (1,)
    stack = outcome.attributes["stacks"][1]
    assert f'{HERE}", line {line_of("# elsewhere")}, in only_rank_0' in stack
    assert f"together('save') at {__file__}:{line_of('# only rank 0')}: rank 1 did not come within" in outcome.message
    assert "if rank == 0" in outcome.message
    assert "last came to together('start') (call 1" in outcome.message


@pytest.mark.live
def test_a_rank_that_called_less_often_is_not_mixed_up_with_an_earlier_call() -> None:
    outcomes = ranks.run_ranks(one_more)

    assert outcomes[0].attributes["ranks"] == (1,)
    assert "last came to together('step') (call 2" in outcomes[0].message
    assert outcomes[1].error == ""


@pytest.mark.live
def test_ranks_in_different_guards_each_learn_where_the_other_is() -> None:
    one, other = ranks.run_ranks(crossed)

    assert "last came to together('evaluation') (call 1" in one.message
    assert "last came to together('save') (call 1" in other.message


@pytest.mark.live
def test_a_rank_that_never_came_to_any_guard_is_looked_at_from_outside() -> None:
    message = ranks.run_ranks(never_a_guard, until=0)[0].message

    assert "Rank 1 never came to a guard" in message


def test_an_exception_inside_reaches_the_others() -> None:
    one, other = ranks.run_ranks(raises_inside)

    assert (one.error, other.error) == ("RankFailed", "ValueError")
    assert one.attributes["rank"] == 1
    assert "ValueError: disk full" in one.message


def test_a_rank_that_died_inside_is_noticed_at_once() -> None:
    outcome = ranks.run_ranks(dies_inside)[0]

    assert outcome.error == "RanksMissing"
    assert "has ended" in outcome.message
    assert "See the output of rank 1 first" in outcome.message
    assert "if rank == 0" not in outcome.message


@pytest.mark.live
def test_an_error_of_a_guard_on_one_rank_reaches_the_others_too() -> None:
    one, other = ranks.run_ranks(raises_an_error_of_ours_inside)

    assert (one.error, one.attributes["rank"]) == ("RankFailed", 1)
    assert "its own" in one.message
    assert other.error == "GuardError"


@pytest.mark.live
def test_a_stopped_rank_is_named_as_stopped() -> None:
    outcome = ranks.run_ranks(is_stopped, until=0)[0]

    assert outcome.error == "RanksMissing"
    assert "is stopped" in outcome.message


@pytest.mark.live
def test_a_rank_that_comes_after_the_others_gave_up_is_told_so() -> None:
    one, other = ranks.run_ranks(too_late)

    assert one.attributes["ranks"] == (1,)
    assert "came too late" in other.message


def test_without_a_group_it_does_nothing() -> None:
    with together("save"):
        together("inner")


@pytest.mark.parametrize("arguments", [{"name": " "}, {"name": "x", "timeout_s": 0}, {"name": "x", "finish_s": -1}])
def test_what_cannot_be_meant_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        together(**arguments)  # type: ignore[arg-type]


def test_a_group_of_one_goes_on() -> None:
    assert ranks.run_ranks(all_come, world_size=1)[0].get() == "done"
