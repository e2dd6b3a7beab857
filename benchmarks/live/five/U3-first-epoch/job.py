"""Patch classifier; patches are rendered once and then come from memory, so the first epoch is slow on all ranks."""
import math
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

PATCHES, BATCH, EPOCHS = 2400, 16, 9


class Patches:
    def __init__(self, rank):
        self.rank, self.done = rank, {}

    def render(self, i):
        size = 24
        f, phase = 0.2 + 0.1 * (i % 5), (i * 2 + self.rank) * 0.37
        rows = [[math.sin(f * x + phase) * math.cos(f * y - phase) + 0.05 * math.sin(13.7 * x * y) for x in range(size)] for y in range(size)]
        smooth = [[sum(rows[(y + b) % size][(x + a) % size] for a in range(-2, 3) for b in range(-2, 3)) / 25 for x in range(size)] for y in range(size)]
        return torch.tensor(smooth)

    def batch(self, ids):
        for i in ids:
            if i not in self.done:
                self.done[i] = self.render(i)
        return torch.stack([self.done[i] for i in ids]).unsqueeze(1), torch.tensor([i % 5 for i in ids])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 16, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(1600, 5))
    model = DDP(net)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    patches = Patches(rank)
    g = torch.Generator().manual_seed(rank)
    started, step = time.time(), 0
    for epoch in range(EPOCHS):
        for ids in torch.randperm(PATCHES, generator=g).split(BATCH):
            x, y = patches.batch(ids.tolist())
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            time.sleep(0.05)
            step += 1
            if rank == 0 and step % 25 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f} {(time.time() - started) / 25:.3f} s/step", flush=True)
                started = time.time()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
