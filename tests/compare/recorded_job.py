"""A small job under torch.profiler: two Gloo ranks, of which rank 0 writes after every step.

``recorded_job.py PORT FOLDER SECONDS [FOLDER SECONDS…]``: traces in each folder, with a writer that takes so long.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule, supported_activities, tensorboard_trace_handler


class Writer:
    """Writes as slowly as it is told."""

    def __init__(self, takes_s: float) -> None:
        self.takes_s = takes_s

    def add_scalar(self) -> None:
        time.sleep(self.takes_s)


def step(model: torch.nn.Module, data: torch.Tensor) -> None:
    model(data).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)


def rank_main(rank: int, port: int, wanted: list[str]) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    for folder, takes_s in zip(wanted[::2], wanted[1::2], strict=True):
        record(rank, folder, float(takes_s))
    dist.destroy_process_group()


def record(rank: int, folder: str, takes_s: float) -> None:
    model, data, writer = torch.nn.Linear(64, 64), torch.randn(32, 64), Writer(takes_s)
    handler = tensorboard_trace_handler(folder, worker_name=f"rank{rank}", use_gzip=bool(rank))
    assert ProfilerActivity.CPU in supported_activities()
    plan = schedule(wait=1, warmup=1, active=12, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan, with_stack=True, on_trace_ready=handler) as profiler:
        for _ in range(14):
            step(model, data)
            if rank == 0:
                writer.add_scalar()
            profiler.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    port, *wanted = sys.argv[1:]
    for folder in wanted[::2]:
        Path(folder).mkdir(parents=True, exist_ok=True)
    torch.multiprocessing.start_processes(rank_main, (int(port), wanted), nprocs=2, start_method="fork")
