"""Demand model, trained day after day on what the shops of each rank sold; a day has as many steps as the rank with the fewest batches."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from prefetch import Prefetcher

SALES = {0: [1900, 2010, 1960, 2040, 1980, 1900, 1950], 1: [1960, 1930, 2020, 2410, 2380, 2000, 1900]}
BATCH = 32


def day_batches(rank, day, rows):
    g = torch.Generator().manual_seed(10 * day + rank)
    for _ in range(rows // BATCH):
        x = torch.randn(BATCH, 30, generator=g)
        time.sleep(0.01)
        yield x, torch.relu(x[:, :5].sum(1, keepdim=True)) + 0.1 * day


def common_steps(rows):
    steps = torch.tensor([rows // BATCH])
    dist.all_reduce(steps, op=dist.ReduceOp.MIN)
    return int(steps)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(30, 128), nn.ReLU(), nn.Linear(128, 1)))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for day, rows in enumerate(SALES[rank]):
        steps = common_steps(rows)
        source = Prefetcher(day_batches(rank, day, rows))
        for step, (x, y) in zip(range(steps), source):
            loss = nn.functional.smooth_l1_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            time.sleep(0.06)
            if rank == 0 and step % 15 == 0:
                print(f"day {day} step {step}/{steps} loss {loss.item():.4f}", flush=True)
        source.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
