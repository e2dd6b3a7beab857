"""Rank 0 evaluates alone while the others wait for it: ``marked_job.py SECONDS ALLOWED LIMIT``.

``ALLOWED``: the bound of the mark in seconds, ``none`` without a bound, ``unmarked`` without a mark. ``LIMIT``: of the
group, in seconds.
"""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta

import torch
import torch.distributed as dist

from unhang.guards.phases import phase, step

STEPS = 30


def mark(allowed: str) -> AbstractContextManager[None]:
    """As the user marks it."""
    if allowed == "unmarked":
        return nullcontext()
    return phase("evaluation", at_most_s=None if allowed == "none" else float(allowed))


def score(seconds: float) -> None:
    """Compute for so long, at one line."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        torch.randn(64, 64).mm(torch.randn(64, 64))


def train(steps: int) -> None:
    """A few steps, counted."""
    shared = torch.zeros(1)
    for _ in range(steps):
        score(0.02)
        dist.all_reduce(shared)
        step()


def main() -> None:
    """Train, evaluate on rank 0, train on."""
    seconds, allowed, limit_s = float(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    dist.init_process_group("gloo", timeout=timedelta(seconds=limit_s))
    train(STEPS)
    if dist.get_rank() == 0:
        with mark(allowed):
            score(seconds)
    train(STEPS)
    dist.destroy_process_group()


main()
