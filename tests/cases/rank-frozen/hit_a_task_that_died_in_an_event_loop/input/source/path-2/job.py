"""DDP on objects that are fetched from an object store, a chunk of them at a time."""
import random
import struct
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torchmetrics.aggregation import MeanMetric

from fetch import fetch

CHUNK = 96
WIDTH = 12


def make_store(rank, n=4000):
    """The store of this rank: key -> packed floats, the last one is the target."""
    rng = random.Random(rank)
    store = {}
    for i in range(n):
        row = [rng.gauss(0, 1) for _ in range(WIDTH)]
        row.append(sum(row[:4]))
        store[f"obj-{rank}-{i:05d}"] = struct.pack(f"<I{len(row)}f", len(row), *row)
    if rank == 1:
        key = f"obj-{rank}-02512"
        store[key] = store[key][:30]
    return store


def chunks(store):
    keys = sorted(store)
    for i in range(0, len(keys) - CHUNK + 1, CHUNK):
        found = fetch(store, keys[i:i + CHUNK])
        rows = torch.tensor([found[k] for k in sorted(found)])
        yield rows[:, :WIDTH], rows[:, WIDTH]


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    store = make_store(rank)
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(WIDTH, 40), nn.ReLU(), nn.Linear(40, 1)))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    average = MeanMetric(sync_on_compute=False)
    for number, (x, y) in enumerate(chunks(store)):
        for i in range(0, CHUNK, 16):
            pred = model(x[i:i + 16]).squeeze(1)
            loss = nn.functional.mse_loss(pred, y[i:i + 16])
            opt.zero_grad()
            loss.backward()
            opt.step()
            average.update(loss.item())
            time.sleep(0.04)
        if rank == 0:
            print(f"chunk {number} loss {average.compute().item():.4f}", flush=True)
        average.reset()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
