"""DDP on shards of fixed-size records, read at random offsets; some shards came back packed from the archive."""
import gzip
import os
import time
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

WIDTH = 64
RECORD = 4 * WIDTH
ROWS = {0: 3200, 1: 60000}


def shard_path(rank, number):
    suffix = ".gz" if rank == 1 and number > 0 else ""
    return f"out/shard-{rank}-{number}.f32{suffix}"


def write_shards(rank):
    os.makedirs("out", exist_ok=True)
    rng = np.random.default_rng(rank)
    for number, rows in ROWS.items():
        path = shard_path(rank, number)
        if not os.path.exists(path):
            opener = gzip.open(path, "wb", 1) if path.endswith(".gz") else open(path, "wb")
            with opener as f:
                f.write(rng.standard_normal((rows, WIDTH), dtype=np.float32).tobytes())


class Shard(Dataset):
    def __init__(self, path, rows):
        self.path, self.rows, self.file = path, rows, None

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        if self.file is None:
            self.file = gzip.open(self.path) if self.path.endswith(".gz") else open(self.path, "rb")
        self.file.seek(i * RECORD)
        return np.frombuffer(self.file.read(RECORD), dtype=np.float32).copy()


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    write_shards(rank)
    dist.barrier()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(WIDTH, 24), nn.ReLU(), nn.Linear(24, WIDTH)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    step, begin = 0, time.perf_counter()
    for number, rows in ROWS.items():
        loader = DataLoader(Shard(shard_path(rank, number), rows), batch_size=16, shuffle=True)
        for x in loader:
            loss = nn.functional.mse_loss(model(x), x)
            opt.zero_grad()
            loss.backward()
            opt.step()
            time.sleep(0.04)
            step += 1
            if rank == 0 and step % 20 == 0:
                print(f"shard {number} step {step} loss {loss.item():.4f} [{time.perf_counter() - begin:.1f} s]", flush=True)
                begin = time.perf_counter()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
