"""A DeepSpeed engine with our guard: the same losses, and what it does is said; faults before the first step."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.guards.ranks import run_ranks
from unhang.inprocess import annotations as marked

pytest.importorskip("deepspeed")
pytestmark = [pytest.mark.job, pytest.mark.timeout(300)]


def engine(stage: int, width: int = 4, lr: float = 0.01) -> Any:
    import deepspeed
    import torch

    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.Linear(width, 1))
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 2,
        "zero_optimization": {"stage": stage},
        "optimizer": {"type": "Adam", "params": {"lr": lr, "torch_adam": True}},
    }
    made, *_ = deepspeed.initialize(model=model, config=config, model_parameters=model.parameters())
    return made


def trained(made: Any, folder: Path) -> list[float]:
    import torch

    losses = []
    for number in range(8):
        loss = made(torch.full((2, 3), float(number + made.global_rank))).square().mean()
        made.backward(loss)
        made.step()
        losses.append(loss.item())
    made.save_checkpoint(str(folder), tag="t")
    made.load_checkpoint(str(folder), tag="t")
    return losses


def everything(rank: int, stage: int, folder: Path) -> dict[str, Any]:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from unhang.errors import RanksDiffer
    from unhang.integrations.deepspeed import guard

    plain = trained(engine(stage), folder)
    marked.reset_annotations()
    guarded = trained(guard(engine(stage)), folder)
    found = {
        "same": plain == guarded,
        "steps": marked.steps()[0],
        "said": {name: spent.times for name, spent in marked.spent().items()},
        "open": bool(marked._current.marks),
    }
    uneven = DataLoader(TensorDataset(torch.ones(8 + 4 * rank, 3)), batch_size=2)
    for name, make, loader in (
        ("settings", lambda: engine(stage, lr=0.01 + rank), None),
        ("rows", lambda: engine(stage), uneven),
    ):
        try:
            guard(make(), loader=loader)
        except RanksDiffer as error:
            found[name] = str(error)
    return found


@pytest.mark.parametrize("stage", [pytest.param(1, marks=pytest.mark.live), pytest.param(3, marks=pytest.mark.live)])
def test_it_trains_as_without_us_and_names_what_differs(stage: int, tmp_path: Path) -> None:
    environment = {"DS_ACCELERATOR": "cpu", "PATH": os.environ["PATH"]}
    for outcome in run_ranks(everything, stage, tmp_path, limit_s=250, environment=environment):
        found = outcome.get()

        assert found["same"]
        assert found["steps"] == 4
        assert found["said"] == {"save": 1, "loading": 1}
        assert not found["open"]
        assert "configuration of DeepSpeed['optimizer']['params']['lr']: 0.01 on rank 0" in found["settings"]
        assert "batches per epoch of training" in found["rows"]


def only_the_first_saves(rank: int, folder: Path) -> None:
    from unhang.integrations.deepspeed import guard

    made = guard(engine(1), patience_s=3)
    if rank == 0:
        made.save_checkpoint(str(folder), tag="t")
    made.step()


@pytest.mark.live
def test_a_save_that_only_one_rank_makes_is_an_error(tmp_path: Path) -> None:
    environment = {"DS_ACCELERATOR": "cpu", "PATH": os.environ["PATH"]}
    first, _ = run_ranks(only_the_first_saves, tmp_path, until=0, limit_s=120, environment=environment)

    assert first.error == "RanksMissing", first.trace
    assert first.attributes["ranks"] == (1,)
