"""save_together(): all ranks gather, rank 0 writes whole files, and an error of one rank reaches all."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests.guards import ranks
from unhang.guards import saving
from unhang.guards.saving import save_together

pytestmark = pytest.mark.job
SHARDS_ON_CPU = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 6)
shards = pytest.mark.skipif(not SHARDS_ON_CPU, reason="FSDP2 of this torch needs a card")


def made(rank: int, kind: str) -> tuple[Any, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model: Any = torch.nn.Linear(4, 6)
    if kind == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    if kind == "fsdp2":
        from torch.distributed._composable.fsdp import fully_shard
        from torch.distributed.device_mesh import init_device_mesh

        fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    return model, optimizer


def weights() -> dict[str, torch.Tensor]:
    model, _ = made(0, "plain")
    return dict(model.state_dict())


def full(rank: int, kind: str, folder: Path) -> None:
    model, optimizer = made(rank, kind)
    save_together(model, folder / "weights.pt")
    save_together(model, folder / "all.pt", optimizer=optimizer)


def a_state_dict(rank: int, folder: Path) -> None:
    model, _ = made(rank, "fsdp2")
    save_together({"model": model.state_dict(), "step": 7}, folder / "state.pt")


def sharded(rank: int, folder: Path) -> None:
    model, optimizer = made(rank, "fsdp2")
    for _ in range(2):
        save_together(model, folder / "shards", optimizer=optimizer, sharded=True)


def only_rank_0(rank: int, folder: Path) -> None:
    model, _ = made(rank, "fsdp2")
    if rank == 0:
        save_together(model, folder / "weights.pt", timeout_s=1)
    time.sleep(20)


def disk_full(rank: int, folder: Path) -> None:
    saving._write_file({"old": 1}, folder / "weights.pt") if rank == 0 else None

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    torch.save = no_space
    save_together(made(rank, "ddp")[0], folder / "weights.pt")


def other_keys(rank: int, folder: Path) -> None:
    save_together({"weight": 1, **({"bias": 2} if rank else {})}, folder / "state.pt", timeout_s=60)


@pytest.mark.parametrize("kind", ["plain", "ddp", pytest.param("fsdp2", marks=shards)])
def test_rank_0_writes_the_whole_model_and_optimizer(kind: str, tmp_path: Path) -> None:
    for outcome in ranks.run_ranks(full, kind, tmp_path):
        outcome.get()

    held = torch.load(tmp_path / "weights.pt", weights_only=True)
    torch.testing.assert_close(dict(held), weights())
    both = torch.load(tmp_path / "all.pt", weights_only=True)
    torch.testing.assert_close(dict(both["model"]), weights())
    assert both["optimizer"]["state"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.pt", "weights.pt"]


@pytest.mark.live
@shards
def test_distributed_tensors_in_a_state_dict_are_made_whole(tmp_path: Path) -> None:
    for outcome in ranks.run_ranks(a_state_dict, tmp_path):
        outcome.get()

    held = torch.load(tmp_path / "state.pt", weights_only=True)
    torch.testing.assert_close(dict(held["model"]), weights())
    assert held["step"] == 7


@shards
def test_shards_lie_in_their_folder_once_all_are_written(tmp_path: Path) -> None:
    for outcome in ranks.run_ranks(sharded, tmp_path):
        outcome.get()

    assert [path.name for path in tmp_path.iterdir()] == ["shards"]
    assert {".metadata", "__0_0.distcp", "__1_0.distcp"} <= {path.name for path in (tmp_path / "shards").iterdir()}


@pytest.mark.live
@shards
def test_a_save_under_a_test_of_the_rank_is_named(tmp_path: Path) -> None:
    outcome = ranks.run_ranks(only_rank_0, tmp_path, until=0)[0]

    assert outcome.error == "RanksMissing"
    assert "if rank == 0" in outcome.message


def test_an_error_of_rank_0_reaches_all_and_the_file_before_stays(tmp_path: Path) -> None:
    first, other = ranks.run_ranks(disk_full, tmp_path)

    assert first.error == "OSError"
    assert other.error == "RankFailed"
    assert "rank 0 failed inside: OSError: [Errno 28] No space left on device" in other.message
    assert torch.load(tmp_path / "weights.pt", weights_only=True) == {"old": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["weights.pt"]


@pytest.mark.live
def test_a_state_dict_with_other_keys_is_refused_on_all_ranks(tmp_path: Path) -> None:
    assert {outcome.error for outcome in ranks.run_ranks(other_keys, tmp_path)} == {"RanksDiffer"}


def test_without_a_group_it_just_saves(tmp_path: Path) -> None:
    model, optimizer = made(0, "plain")

    assert save_together(model, tmp_path / "new" / "all.pt", optimizer=optimizer) == tmp_path / "new" / "all.pt"

    torch.testing.assert_close(dict(torch.load(tmp_path / "new" / "all.pt", weights_only=True)["model"]), weights())
