"""limits(): what is set is set on every group, holds for the next collective, and what does not hold is said."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from tests.guards import ranks
from unhang.errors import UsageError
from unhang.guards import limits as module
from unhang.guards.limits import limits

pytestmark = pytest.mark.job
TAKES_NEW = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= module.GLOO_TAKES_NEW_LIMITS
takes_new = pytest.mark.skipif(not TAKES_NEW, reason="Gloo of this torch keeps the limit a group is made with")


def set_on_all(rank: int) -> list[tuple[str, str, tuple[int, ...], float | None]]:
    dist.new_group([0, 1])
    alone = [dist.new_group([0]), dist.new_group([1])][rank]
    assert alone.size() == 1
    before = limits()
    assert {limit.limit_s for limit in before.groups} == {60.0, 1800.0}
    found = limits(init=timedelta(minutes=5))
    assert not found.notes
    return [(limit.group, limit.backend, limit.ranks, limit.limit_s) for limit in found.groups]


def waits_in_vain(rank: int) -> None:
    value = torch.ones(1)
    dist.all_reduce(value)
    limits(train=1.5)
    if rank == 1:
        time.sleep(600)
    with pytest.raises(RuntimeError, match="1500ms"):
        dist.all_reduce(value)


def after_the_second_step(rank: int) -> list[float | None]:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters())
    limits(init=900, train=120)
    seen = []
    for _ in range(4):
        seen.append(limits().groups[0].limit_s)
        optimizer.step()
    return seen


def old_gloo(rank: int) -> tuple[str, float | None]:
    module.GLOO_TAKES_NEW_LIMITS = (99, 0)
    found = limits(train=5)
    return found.notes[0], found.groups[0].limit_s


@takes_new
def test_every_group_of_the_rank_gets_it() -> None:
    first, other = (outcome.get() for outcome in ranks.run_ranks(set_on_all))

    assert first == [
        ("default_pg", "gloo", (0, 1), 300.0),
        ("group 1", "gloo", (0, 1), 300.0),
        ("group 2", "gloo", (0,), 300.0),
    ]
    assert [limit[2] for limit in other] == [(0, 1), (0, 1), (1,)]


@pytest.mark.live
@takes_new
def test_it_holds_for_the_next_collective() -> None:
    ranks.run_ranks(waits_in_vain, until=0)[0].get()


@takes_new
def test_that_of_training_holds_after_the_second_step() -> None:
    for outcome in ranks.run_ranks(after_the_second_step):
        assert outcome.get() == [900.0, 900.0, 120.0, 120.0]


def test_a_backend_that_ignores_a_new_limit_is_told_from_one_that_takes_it() -> None:
    note, held = ranks.run_ranks(old_gloo)[0].get()

    assert held == 60.0
    assert "default_pg: 60 s apply, not 5 s: gloo keeps the limit a group is created with" in note


def test_a_watchdog_that_is_switched_off_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
    monkeypatch.setattr(module, "_backends", lambda: [(None, None)])
    monkeypatch.setattr(module, "_limit_of", lambda *_: module.GroupLimit("default_pg", "nccl", (0, 1), 600.0))

    assert limits().notes == (
        "TORCH_NCCL_ASYNC_ERROR_HANDLING=0 is set: no timeout of an NCCL group has any effect; unset it",
    )


def test_without_a_group_nothing_happens() -> None:
    assert limits(init=60).groups == ()
    assert str(limits()) == "no process group"


@pytest.mark.parametrize("wrong", [0, -5, timedelta(0), float("nan")])
def test_a_limit_that_is_no_time_is_refused(wrong: float | timedelta) -> None:
    with pytest.raises(UsageError, match="init"):
        limits(init=wrong)
