"""Log-line classifier; gzip in the background unpacks the lines of a rank into a pipe, the loader reads them."""
import gzip
import os
import random
import subprocess
import time
import zlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset

WORDS = "open close read write retry abort login logout flush sync mount remount failed ok slow fast".split()
LINES = {0: 9000, 1: 3900}


def prepare(rank):
    os.makedirs("logs", exist_ok=True)
    path = f"logs/part{rank}.gz"
    if not os.path.exists(path):
        rng = random.Random(rank)
        with gzip.open(path + ".new", "wt") as f:
            for _ in range(LINES[rank]):
                line = rng.choices(WORDS, k=rng.randint(4, 12))
                f.write(f"{int('failed' in line or 'abort' in line)} {' '.join(line)}\n")
        os.replace(path + ".new", path)
    return path


def unpack(path, rank):
    pipe = f"logs/pipe{rank}"
    if os.path.exists(pipe):
        os.remove(pipe)
    os.mkfifo(pipe)
    subprocess.Popen(f"gzip -dc {path} > {pipe}", shell=True)
    return pipe


class Lines(IterableDataset):
    def __init__(self, pipe):
        self.pipe = pipe

    def __iter__(self):
        while True:
            with open(self.pipe) as f:
                for line in f:
                    label, *words = line.split()
                    ids = [zlib.crc32(w.encode()) % 500 for w in words]
                    yield torch.tensor(ids + [0] * (12 - len(ids))), int(label)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    pipe = unpack(prepare(rank), rank)
    loader = DataLoader(Lines(pipe), batch_size=16, num_workers=1)
    model = DDP(nn.Sequential(nn.EmbeddingBag(500, 32, mode="sum"), nn.ReLU(), nn.Linear(32, 2)))
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step, (ids, labels) in enumerate(loader, 1):
        loss = nn.functional.cross_entropy(model(ids), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.06)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
        if step == 2000:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
