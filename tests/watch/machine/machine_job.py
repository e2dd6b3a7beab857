"""A job of which the machine holds a rank up; ``machine_job.py SHAPE SECONDS [--group GROUP] [--output_dir PATH]``.

``limit``: rank 1 goes into the control group GROUP. ``neighbour``: each rank has a processor of its own, for a stranger
to take. ``full``: rank 0 saves to PATH, which has no room. ``slow``: rank 0 goes into GROUP, whose disk is slow, and
saves to PATH.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist


def compute(step: int) -> int:
    """The same for every rank."""
    total = 0
    for number in range(400_000):
        total += number * step % 7
    return total


def option(name: str) -> Path:
    """The word behind ``name``."""
    return Path(sys.argv[sys.argv.index(name) + 1])


def save(size: int) -> None:
    """A checkpoint that is on the disk when this returns."""
    with (option("--output_dir") / "model.pt").open("wb") as file:
        torch.save({"weights": torch.zeros(size)}, file)
        file.flush()
        os.fsync(file.fileno())


def main() -> None:
    """Step together until the time is over."""
    shape, seconds = sys.argv[1], float(sys.argv[2])
    dist.init_process_group("gloo")
    rank, over, step = dist.get_rank(), torch.zeros(1), 0
    if (shape, rank) in (("limit", 1), ("slow", 0)):
        (option("--group") / "cgroup.procs").write_text(str(os.getpid()))
    if shape == "neighbour":
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    end = time.monotonic() + seconds
    while not over.item():
        compute(step)
        if shape in ("full", "slow") and rank == 0 and step == 20:
            save(1 << 22 if shape == "full" else 1 << 24)
        over[0] = time.monotonic() > end
        dist.all_reduce(over)
        step += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
