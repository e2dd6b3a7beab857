"""Worst samples are shown when a rank finds a new record."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def show_worst(worst):
    rows = [None] * dist.get_world_size()
    dist.all_gather_object(rows, worst)
    if dist.get_rank() == 0:
        print("worst", rows, flush=True)


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Linear(16, 16))
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    record = 50.0
    for step in range(400):
        g = torch.Generator().manual_seed(1000 * rank + step)
        x = torch.randn(8, 16, generator=g)
        if rank == 1 and step == 150:
            x[0, 0] = 90.0
        loss = (model(x) - x).pow(2).mean()
        if loss.item() > record:
            record = loss.item()
            show_worst(record)
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.02)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
