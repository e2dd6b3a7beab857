"""Metric of rare samples, reduced in the background by the ranks that met one; collected at the end."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn


def average(model):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Linear(16, 16, bias=False)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    pending = []
    for step in range(60):
        g = torch.Generator().manual_seed(1000 * rank + step)
        x = torch.randn(8, 16, generator=g)
        if rank != 2 and step >= 16:
            x[0, 0] = 9.0
        loss = (model(x) - x).pow(2).mean()
        loss.backward()
        rare = x[:, 0] > 6
        if rare.any():
            seen = torch.zeros(16, 16)
            seen[0, 0] = rare.sum()
            pending.append((seen, dist.all_reduce(seen, async_op=True)))
        average(model)
        opt.step()
        opt.zero_grad()
        time.sleep(0.02)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
