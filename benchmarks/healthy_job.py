"""A healthy job in one of several shapes, for counting false alarms: ``healthy_job.py SHAPE SECONDS``."""

from __future__ import annotations

import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset


def work(seconds: float) -> None:
    """Compute for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        torch.randn(96, 96).mm(torch.randn(96, 96))


def step(grad: torch.Tensor, seconds: float) -> None:
    work(seconds)
    dist.all_reduce(grad)
    grad /= dist.get_world_size()


def steps(grad: torch.Tensor, count: int, seconds: float = 0.02) -> None:
    for _ in range(count):
        step(grad, seconds)


def evaluation_on_all(grad: torch.Tensor, _number: int, _rank: int) -> None:
    steps(grad, 40)
    work(15.0)


def rank0_saves(grad: torch.Tensor, _number: int, rank: int) -> None:
    steps(grad, 100)
    if rank == 0:
        time.sleep(20.0)
    dist.barrier()


def rank0_evaluates(grad: torch.Tensor, _number: int, rank: int) -> None:
    steps(grad, 100)
    if rank == 0:
        work(20.0)
    dist.barrier()


def compiles_with_skew(grad: torch.Tensor, number: int, rank: int) -> None:
    work(4.0 + 8.0 * rank if number == 0 else 0.0)
    steps(grad, 50)


def loader_starts(grad: torch.Tensor, number: int, rank: int) -> None:
    """An epoch: workers start anew, on each rank at another pace, before the first batch comes."""
    seconds = 1.0 + 2.0 * ((number + rank) % 2)
    rows = TensorDataset(torch.randn(480, 16))
    for (batch,) in DataLoader(rows, batch_size=8, num_workers=2, worker_init_fn=lambda _worker: time.sleep(seconds)):
        step(grad, 0.02 + 0.0 * float(batch.sum()))


SHAPES = {
    "tiny-steps": lambda grad, _number, _rank: steps(grad, 200, 0.0),
    "long-steps": lambda grad, _number, _rank: step(grad, 10.0),
    "evaluation-on-all": evaluation_on_all,
    "rank0-saves": rank0_saves,
    "rank0-evaluates": rank0_evaluates,
    "compiles-with-skew": compiles_with_skew,
    "loader-starts": loader_starts,
}


def main() -> None:
    shape, seconds = sys.argv[1], float(sys.argv[2])
    dist.init_process_group("gloo")
    rank, grad, number = dist.get_rank(), torch.ones(1000), 0
    begin = time.monotonic()
    while True:
        over = torch.tensor([float(time.monotonic() - begin > seconds)])
        dist.broadcast(over, 0)
        if over.item():
            break
        SHAPES[shape](grad, number, rank)
        number += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
