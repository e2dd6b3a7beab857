"""A small job, in several shapes; ``ending_job.py SHAPE``. ``thread``: an exception ends rank 1's training thread.
``abort``: rank 1 ends itself. ``late``: the third member of a group takes a while before its first call there.
``asks``: rank 0 waits for an answer from outside, which comes late. ``counts``: rank 0 is in one long call, which keeps
the interpreter lock. ``well``: nothing is wrong."""

from __future__ import annotations

import os
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

LABELS = {number: number % 10 for number in range(60)}
LATE_S, MAIN_LIVES_S = 9.0, 15.0
SOME = 10_000_000


def steps(rank: int, shape: str) -> None:
    """Some steps; the faults that come in the middle of them."""
    shared = torch.ones(4)
    for step in range(50):
        if shape == "thread":
            shared[0] = LABELS[step + 30 * rank]
        if shape == "abort" and step == 30 and rank == 1:
            os.abort()
        if shape == "asks" and step == 40 and rank == 0:
            ask_server()
        if shape == "counts" and step == 40 and rank == 0:
            count_tokens()
        dist.all_reduce(shared)
        time.sleep(0.03)


def ask_server() -> None:
    """No movement, no use of the processor."""
    time.sleep(LATE_S)


def count_tokens() -> None:
    """One call in C of about ``LATE_S``: no other thread of the process gets a turn."""
    began = time.monotonic()
    sum(range(SOME))
    sum(range(round(SOME * LATE_S / (time.monotonic() - began))))


def read_shards() -> None:
    """Look busy for a while."""
    end = time.monotonic() + LATE_S
    while time.monotonic() < end:
        sum(range(100_000))


def main(shape: str) -> None:
    """One rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    rank, small = dist.get_rank(), dist.new_group([0, 1])
    if shape == "thread":
        trainer = threading.Thread(target=steps, args=(rank, shape), name="trainer", daemon=True)
        trainer.start()
        time.sleep(MAIN_LIVES_S)
        sys.exit(3)
    steps(rank, shape)
    if shape == "late":
        group = dist.new_group(list(range(dist.get_world_size())))
        if rank == dist.get_world_size() - 1:
            read_shards()
        dist.all_reduce(torch.ones(4), group=group)
    if rank < 2:
        dist.barrier(group=small)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
