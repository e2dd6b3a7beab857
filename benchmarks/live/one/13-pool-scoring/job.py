"""DDP; the first rank scores samples of the model with a process pool."""
import multiprocessing as mp
import os
import signal
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def edit_distance(pair):
    a, b = pair
    row = list(range(len(b) + 1))
    for i, ca in enumerate(a, 1):
        prev, row[0] = row[0], i
        for j, cb in enumerate(b, 1):
            prev, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, prev + (ca != cb))
    if len(a) > 200:
        os.kill(os.getpid(), signal.SIGKILL)  # what the kernel does when the container is out of memory
    return row[-1]


def score(pool, step):
    g = torch.Generator().manual_seed(step)
    lengths = [40] * 15 + [40 + 3 * step]
    texts = [torch.randint(97, 103, (n,), generator=g).tolist() for n in lengths]
    pairs = list(zip(texts[1:], texts))
    distances = pool.map(edit_distance, pairs)
    return sum(distances) / len(distances)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=30))
    rank = dist.get_rank()
    pool = mp.get_context("spawn").Pool(2) if rank == 0 else None
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Embedding(128, 16), nn.Linear(16, 128)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(1, 3001):
        ids = torch.randint(97, 103, (8, 20))
        loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.05)
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if rank == 0 and step % 30 == 0:
            print(f"step {step} mean distance {score(pool, step):.2f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
