"""Two Gloo ranks; rank 0 writes after every step, and from half of them on that takes long.

``slowing_job.py STEPS SECONDS``.
"""

from __future__ import annotations

import sys
import time

import torch
import torch.distributed as dist


def write(seconds: float) -> None:
    time.sleep(seconds)


def main(steps: int, slow_s: float) -> None:
    dist.init_process_group("gloo")
    model, data = torch.nn.Linear(64, 64), torch.randn(32, 64)
    for step in range(steps):
        model(data).square().mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        if dist.get_rank() == 0:
            write(slow_s if step > steps // 2 else 0.01)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
