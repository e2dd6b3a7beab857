"""Classifier on scanned pages; decoded pages stay in the loader workers, a guard keeps them below a memory budget."""
import os
import signal
import threading
import time

import psutil
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

BUDGET_MB = 160
RESOLUTION = {0: 64, 1: 160}


class Pages(Dataset):
    def __init__(self, site, count=2400):
        self.size, self.count, self.decoded = RESOLUTION[site], count, {}

    def __len__(self):
        return self.count

    def decode(self, i):
        g = torch.Generator().manual_seed(i)
        page = torch.rand(3, self.size, self.size, generator=g)
        page[i % 3] *= 0.6
        return page

    def __getitem__(self, i):
        if i not in self.decoded:
            self.decoded[i] = self.decode(i)
        small = nn.functional.interpolate(self.decoded[i][None], size=32, mode="bilinear")[0]
        return small, i % 3


def private_mb(process):
    memory = process.memory_info()
    return (memory.rss - memory.shared) / 2**20


class MemoryGuard(threading.Thread):
    """The biggest worker pauses while the workers of this rank use more than the budget."""

    def __init__(self, rank):
        super().__init__(daemon=True)
        self.rank, self.base, self.paused = rank, {}, None

    def run(self):
        while True:
            time.sleep(0.5)
            workers = [p for p in psutil.Process().children() if p.name().startswith("p")]
            used = {}
            for p in workers:
                mb = private_mb(p)
                used[p] = mb - self.base.setdefault(p.pid, mb)
            total = sum(used.values())
            if total > BUDGET_MB and self.paused is None:
                self.paused = max(used, key=used.get)
                os.kill(self.paused.pid, signal.SIGSTOP)
            elif total < 0.9 * BUDGET_MB and self.paused is not None:
                os.kill(self.paused.pid, signal.SIGCONT)
                self.paused = None


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 49, 3))
    model = DDP(net)
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = DataLoader(Pages(rank), batch_size=8, shuffle=True, num_workers=2, persistent_workers=True)
    MemoryGuard(rank).start()
    step = 0
    for epoch in range(20):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            time.sleep(0.1)
            if rank == 0 and step % 10 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
