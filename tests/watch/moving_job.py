"""A job that moves, in several shapes; ``moving_job.py SHAPE SECONDS``. In ``writer`` rank 0 is to blame for its pace;
in ``other-dtype`` and ``shorter-broadcast`` calls differ and the job goes on; nothing is wrong in the others."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

GROWS_FROM = 500


def work(seconds: float) -> None:
    """Compute for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        torch.randn(64, 64).mm(torch.randn(64, 64))


def record(history: Path, step: int, loss: float) -> None:
    """Write the whole history again: from some step on, on a disk that got slow."""
    with history.open("w") as file:
        begin = time.monotonic()
        file.write(json.dumps({"step": step, "loss": loss}))
        while step >= GROWS_FROM and time.monotonic() < begin + 0.08:
            os.fsync(file.fileno())


def average(loss: torch.Tensor, rank: int) -> None:
    """The last rank counts in whole numbers: as many bytes, and nonsense."""
    shared = loss.detach().clone() if rank == 0 else loss.detach().int()
    dist.all_reduce(shared)


def share(rank: int) -> None:
    """The root has fewer rows than the others expect."""
    rows = torch.zeros(100 if rank == 0 else 160)
    dist.broadcast(rows, 0)


def main() -> None:
    """Train in one shape."""
    shape, seconds = sys.argv[1], float(sys.argv[2])
    dist.init_process_group("gloo")
    rank, rng = dist.get_rank(), random.Random(dist.get_rank())
    model = DistributedDataParallel(torch.nn.Linear(32, 8))
    history, begin, step = Path(sys.argv[0]).with_name("history.json"), time.monotonic(), 0
    over = torch.zeros(1)
    while not over.item():
        work(0.02 * (rng.uniform(0.5, 1.5) if shape == "noise" else 1))
        if shape == "longer-sequences":
            work(min(0.06, step * 0.0001))
        if shape == "evaluation" and step % 200 == 199:
            work(4.0)
        loss = model(torch.randn(16, 32)).pow(2).mean()
        loss.backward()
        if shape == "writer" and rank == 0:
            record(history, step, loss.item())
        if shape == "other-dtype" and step % 20 == 5:
            average(loss, rank)
        if shape == "shorter-broadcast" and step == 5:
            share(rank)
        over[0] = float(time.monotonic() - begin > seconds)
        dist.broadcast(over, 0)
        step += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
