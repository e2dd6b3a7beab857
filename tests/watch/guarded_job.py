"""Ranks that wait in a guard: ``guarded_job.py first SECONDS``, ``guarded_job.py together``."""

from __future__ import annotations

import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import unhang


def prepare(seconds: float) -> None:
    """Compute for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        torch.randn(64, 64).mm(torch.randn(64, 64))


def save() -> None:
    """Meant for every rank."""
    with unhang.together("save", timeout_s=25):
        pass


def main() -> None:
    """One of the two."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    shared = torch.zeros(1)
    if sys.argv[1] == "first":
        with unhang.rank_zero_first("tokenisation") as first:
            if first:
                prepare(float(sys.argv[2]))
    for _ in range(30):
        prepare(0.01)
        dist.all_reduce(shared)
        unhang.step()
    if sys.argv[1] == "together":
        if dist.get_rank() == 0:
            save()
        dist.all_reduce(shared)
    dist.destroy_process_group()


main()
