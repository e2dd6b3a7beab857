"""Tide gauge model with a validation of some seconds every 60 steps, on all ranks."""
import math
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, EVERY = 2700, 60


def gauge(seed, count, length=72):
    g = torch.Generator().manual_seed(seed)
    start = 1000 * torch.rand(count, 1, generator=g)
    t = start + torch.arange(length + 1)
    wave = torch.sin(t * math.tau / 12.42) + 0.4 * torch.sin(t * math.tau / 12.0) + 0.05 * torch.randn(count, length + 1, generator=g)
    return wave[:, :-1, None], wave[:, -1]


class Tide(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.rnn = nn.GRU(1, dim, batch_first=True)
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[1][-1]).squeeze(1)


def validate(model, rank, step):
    total = torch.zeros(1)
    with torch.no_grad():
        for part in range(70):
            x, y = gauge(10000 + 100 * rank + part, 64)
            total += nn.functional.l1_loss(model(x), y) / 70
    dist.all_reduce(total)
    if rank == 0:
        print(f"step {step} validation {total.item() / dist.get_world_size():.4f}", flush=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Tide())
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    started = time.time()
    for step in range(1, STEPS + 1):
        x, y = gauge(2 * step + rank, 32)
        loss = nn.functional.l1_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f} ({time.time() - started:.1f}s)", flush=True)
        if step % EVERY == 0:
            validate(model.module, rank, step)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
