"""Small sweep over widths; every trial runs in its own process group, on the same two worker processes."""
import os
import socket
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

WIDTHS = [16, 32, 64]
WORLD = 2


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def open_group(rank, trial, ports):
    # the port of the trial before may still be in TIME_WAIT
    os.environ["MASTER_PORT"] = str(ports[trial])
    dist.init_process_group("gloo", rank=rank, world_size=WORLD, timeout=timedelta(hours=1))


def run_trial(rank, width, steps=220):
    torch.manual_seed(width)
    model = DDP(nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 1)))
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    g = torch.Generator().manual_seed(rank)
    for step in range(steps):
        x = torch.randn(64, 8, generator=g)
        y = x[:, 0] * x[:, 1]
        loss = nn.functional.mse_loss(model(x).squeeze(1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.03)
        if rank == 0 and step % 40 == 0:
            print(f"width {width} step {step} loss {loss.item():.4f}", flush=True)
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item() / WORLD


def worker(rank, ports):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    torch.set_num_threads(1)
    table = {}
    for trial, width in enumerate(WIDTHS):
        open_group(rank, trial, ports)
        table[width] = run_trial(rank, width)
        dist.barrier()
        dist.destroy_process_group()
        if rank == 0:
            print(f"trial {trial}: width {width} loss {table[width]:.4f}", flush=True)
    if rank == 0:
        print("best width", min(table, key=table.get), flush=True)


if __name__ == "__main__":
    mp.spawn(worker, args=([free_port() for _ in WIDTHS],), nprocs=WORLD)
