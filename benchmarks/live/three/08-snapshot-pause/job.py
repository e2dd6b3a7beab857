"""One rank of a data parallel run on three processes; every rank keeps its predictions in a file."""
import csv
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

STEPS = 2000


def average_gradients(net, world):
    flat = torch.cat([p.grad.flatten() for p in net.parameters()])
    dist.all_reduce(flat)
    flat /= world
    offset = 0
    for p in net.parameters():
        p.grad.copy_(flat[offset:offset + p.numel()].view_as(p))
        offset += p.numel()


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=2))
    rank, world = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {world}: pid {os.getpid()}", flush=True)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.02)
    g = torch.Generator().manual_seed(rank)
    with open(f"out/predictions-{rank}.csv", "w", newline="") as f:
        table = csv.writer(f)
        for step in range(STEPS):
            x = torch.randn(16, 10, generator=g)
            y = x.sum(1) / 3
            pred = net(x).squeeze(1)
            loss = nn.functional.mse_loss(pred, y)
            opt.zero_grad()
            loss.backward()
            average_gradients(net, world)
            opt.step()
            table.writerows(zip([step] * 16, pred.tolist(), y.tolist()))
            f.flush()
            time.sleep(0.08)
            if rank == 0 and step % 20 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
