"""Autoencoder on memory-mapped feature shards with DDP; stale shards are made anew during training."""
import multiprocessing as mp
import os
import time
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import shards

REFRESH = {120: 2}


def summarise(inbox, path):
    """Process of its own: keeps a running mean of the losses in a file."""
    mean = 0.0
    while True:
        item = inbox.get()
        if item is None:
            return
        mean = 0.98 * mean + 0.02 * item
        with open(path, "w") as f:
            f.write(f"{mean:.6f}\n")


def refresh(step):
    owner = REFRESH.get(step)
    if owner is not None:
        # the newer extraction keeps only the rows that passed the filter
        shards.write(owner, shards.ROWS // 4, seed=50 + step)
        print(f"step {step}: shard {owner} is new", flush=True)


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    inbox = mp.Queue()
    helper = mp.get_context("fork").Process(target=summarise, args=(inbox, f"out/mean-{rank}.txt"), daemon=True)
    helper.start()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(shards.WIDTH, 16), nn.ReLU(), nn.Linear(16, shards.WIDTH)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    data = shards.load(rank)
    rng = np.random.default_rng(rank)
    for step in range(1, 2001):
        rows = np.sort(rng.integers(0, len(data), 64))
        x = torch.from_numpy(data[rows])
        loss = nn.functional.mse_loss(model(x), x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        inbox.put(loss.item())
        time.sleep(0.05)
        if rank == 0:
            if step % 20 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
            refresh(step)
    inbox.put(None)
    helper.join()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
