"""Trains on streamed shards with DDP; two loader workers on each rank."""
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

ROOT = Path("out/bucket")
FETCH = Path(__file__).with_name("fetch.py")
WIDTH, ROWS_PER_SHARD, SHARDS = 64, 400, 16
BATCH = 20


def shard_path(rank, i):
    # what has not been read for a while was moved to the cold class
    kind = "cold" if rank == 1 and i >= 4 else "standard"
    return ROOT / kind / f"part-{rank}-{i:03d}.bin"


def write_bucket(rank):
    rng = np.random.default_rng(rank)
    for i in range(SHARDS):
        path = shard_path(rank, i)
        path.parent.mkdir(parents=True, exist_ok=True)
        rng.standard_normal((ROWS_PER_SHARD, WIDTH), dtype=np.float32).tofile(path)


def rows_of(path):
    p = subprocess.Popen([sys.executable, str(FETCH), str(path)], stdout=subprocess.PIPE)
    while len(data := p.stdout.read(4 * WIDTH)) == 4 * WIDTH:
        yield torch.frombuffer(bytearray(data), dtype=torch.float32)
    p.wait()


class Streamed(IterableDataset):
    def __init__(self, rank):
        self.rank = rank

    def __iter__(self):
        info = get_worker_info()
        for i in range(info.id, SHARDS, info.num_workers):
            yield from rows_of(shard_path(self.rank, i))


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    write_bucket(rank)
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, WIDTH)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(Streamed(rank), batch_size=BATCH, num_workers=2, prefetch_factor=2)
    step, last = 0, time.time()
    for epoch in range(30):
        for x in loader:
            loss = nn.functional.mse_loss(model(x), x)
            opt.zero_grad()
            loss.backward()
            opt.step()
            time.sleep(0.05)
            step += 1
            if rank == 0 and step % 5 == 0:
                print(f"step {step} loss {loss.item():.4f} {(time.time() - last) / 5:.2f} s/step", flush=True)
                last = time.time()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
