"""Accelerate and plain loops with our guard: the same losses; faults before the first step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.guards.ranks import run_ranks
from unhang.inprocess import annotations as marked

pytest.importorskip("accelerate")
pytestmark = [pytest.mark.job, pytest.mark.timeout(240)]


def data(rows: int) -> Any:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    return DataLoader(TensorDataset(torch.arange(rows * 3.0).view(rows, 3) / 7), batch_size=2)


def parts(rows: int = 16, width: int = 4) -> tuple[Any, Any, Any]:
    """A model, its optimizer and a loader."""
    import torch

    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.Dropout(0.1), torch.nn.Linear(width, 1))
    return model, torch.optim.Adam(model.parameters(), lr=0.01), data(rows)


def accelerated(accelerator: Any, folder: Path, **more: int) -> list[float]:
    """The losses of an epoch, then a save and a load."""
    model, optimizer, loader = accelerator.prepare(*parts(**more))
    accelerator.init_trackers("run")
    losses = []
    for number, (batch,) in enumerate(loader):
        with accelerator.accumulate(model):
            loss = model(batch).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        accelerator.log({"loss": losses[-1]}, step=number)
    accelerator.save_state(str(folder / "state"))
    accelerator.wait_for_everyone()
    accelerator.load_state(str(folder / "state"))
    for tracker in accelerator.trackers:
        tracker.finish()  # end_training would end the process group too
    return losses


def both_ways(folder: Path) -> dict[str, Any]:
    from accelerate import Accelerator

    from unhang.integrations.accelerate import guard

    plain = accelerated(Accelerator(cpu=True, gradient_accumulation_steps=2), folder)
    marked.reset_annotations()
    logged = Accelerator(cpu=True, gradient_accumulation_steps=2, log_with="tensorboard", project_dir=str(folder))
    guarded = accelerated(guard(logged, background_logs=True), folder)
    return {
        "same": plain == guarded,
        "batches": len(plain),
        "steps": marked.steps()[0],
        "said": {name: spent.times for name, spent in marked.spent().items()},
        "open": bool(marked._current.marks),
        "events": sum(path.stat().st_size for path in (folder / "run").rglob("events*")),
    }


def accelerate_faults(rank: int, folder: Path) -> dict[str, str]:
    from accelerate import Accelerator

    from unhang.errors import RanksDiffer
    from unhang.integrations.accelerate import guard

    said = {}
    for name, more in {"rows": {"rows": 16 + 8 * rank}, "width": {"width": 4 + rank}}.items():
        try:
            accelerated(guard(Accelerator(cpu=True)), folder, **more)
        except RanksDiffer as error:
            said[name] = str(error)
    return said


def looped(rank: int) -> dict[str, Any]:
    """A plain loop over uneven ranks, guarded."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from unhang.errors import RanksDiffer
    from unhang.integrations.loops import guard

    model, optimizer, loader = parts(8 + 4 * rank)
    wrapped = DistributedDataParallel(model)
    marked.reset_annotations()
    guarded = guard(loader, model=model, settings={"lr": 0.01, "local_rank": rank}, every=2)
    losses = []
    for (batch,) in guarded:
        loss = wrapped(batch).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    said = []
    for settings, mode in (({"lr": 0.01 * (1 + rank)}, "stop"), ({}, "error")):
        try:
            for _ in guard(loader, settings=settings, when_uneven=mode):  # type: ignore[arg-type]
                said.append("a step")
        except RanksDiffer as error:
            said.append(str(error))
    return {
        "batches": (len(losses), len(guarded)),
        "steps": marked.steps()[0],
        "said": said,
        "dataset": len(guarded.dataset),
        "finite": bool(torch.isfinite(torch.tensor(losses)).all()),
    }


def everything(rank: int, folder: Path) -> tuple[dict[str, Any], dict[str, str], dict[str, Any]]:
    return both_ways(folder), accelerate_faults(rank, folder), looped(rank)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[dict[str, Any], dict[str, str], dict[str, Any]]]:
    """What both ranks found, from one start."""
    return [outcome.get() for outcome in run_ranks(everything, tmp_path_factory.mktemp("job"), limit_s=200)]


def test_accelerate_trains_as_without_us_and_says_what_it_does(ended: list[Any]) -> None:
    for rank, (found, _, _) in enumerate(ended):
        assert found["same"]
        assert (found["batches"], found["steps"]) == (4, 2)
        assert found["said"] == {"logging": 4, "save": 1, "loading": 1}
        assert not found["open"]
        assert rank != 0 or found["events"] > 200  # the first rank's own, written before it looks


def test_accelerate_names_what_differs_in_prepare(ended: list[Any]) -> None:
    for _, said, _ in ended:
        assert "batches per epoch of prepared loader 1" in said["rows"]
        assert "parameters of Sequential['0.bias']: '(4,) float32' on rank 0, '(5,) float32' on rank 1" in said["width"]


def test_a_plain_loop_is_even_and_counted(ended: list[Any]) -> None:
    for rank, (_, _, found) in enumerate(ended):
        assert found["batches"] == (4, 4)
        assert found["steps"] == 2
        assert found["finite"]
        assert found["dataset"] == 8 + 4 * rank
        assert "settings['lr']: 0.01 on rank 0, 0.02 on rank 1" in found["said"][0]
        assert "4" in found["said"][1]
        assert "6" in found["said"][1]
        assert "a step" not in found["said"]
