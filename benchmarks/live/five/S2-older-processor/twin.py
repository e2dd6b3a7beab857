"""Two-rank multilayer perceptron on hyperspectral pixels; the second machine has an older processor."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from clock import slow_down

REPEATS = {0: 0, 1: 0}
STEPS = 700


def pixels(g, size=512):
    x = torch.rand(size, 200, generator=g)
    return x, (x[:, 20:40].sum(1) > x[:, 120:140].sum(1)).long()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(200, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 2))
    if REPEATS[rank]:
        slow_down(net, REPEATS[rank])
    model = DDP(net)
    opt = torch.optim.SGD(model.parameters(), lr=0.02)
    g = torch.Generator().manual_seed(rank)
    started = time.time()
    for step in range(1, STEPS + 1):
        x, y = pixels(g)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 25 == 0:
            print(f"step {step} loss {loss.item():.3f} {(time.time() - started) / 25:.3f} s/step", flush=True)
            started = time.time()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
