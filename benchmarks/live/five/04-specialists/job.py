"""Tabular model with a shared trunk; ranks with hard regions get an adapter of their own after the warm-up."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

REGIONS = [("coast", 0.2), ("delta", 1.0), ("mountain", 1.4)]
WARMUP, FIRST_CHECK, STEPS = 100, 250, 3000


class Region:
    def __init__(self, name, bend):
        self.name, self.bend = name, bend
        self.rng = torch.Generator().manual_seed(sum(name.encode()))

    def batch(self, count=64):
        x = torch.randn(count, 16, generator=self.rng)
        y = x[:, 0] + self.bend * torch.sin(3 * x[:, 1]) * x[:, 2]
        return x, y[:, None]


def difficulty(losses):
    """Mean loss of every rank, known to all."""
    mine = torch.tensor([sum(losses) / len(losses)])
    out = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(out, mine)
    return [round(v.item(), 3) for v in out]


class Specialists:
    def __init__(self, members, dim):
        self.group = dist.new_group(members)
        self.size = len(members)
        self.adapter = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, 1))
        self.opt = torch.optim.Adam(self.adapter.parameters(), lr=2e-3)

    def step(self, x, rest):
        loss = nn.functional.mse_loss(self.adapter(x), rest)
        self.opt.zero_grad()
        loss.backward()
        for p in self.adapter.parameters():
            dist.all_reduce(p.grad, group=self.group)
            p.grad /= self.size
        self.opt.step()


class Validator:
    """Held-out error of all ranks, in a group of its own."""

    def __init__(self, region):
        self.group = dist.new_group()
        self.x, self.y = region.batch(1000)

    def __call__(self, model):
        with torch.no_grad():
            error = nn.functional.mse_loss(model(self.x), self.y).reshape(1)
        dist.all_reduce(error, group=self.group)
        return error.item() / dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(11)
    region = Region(*REGIONS[rank])
    model = DDP(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses, special, validator = [], None, None
    for step in range(1, STEPS + 1):
        x, y = region.batch()
        pred = model(x)
        loss = nn.functional.mse_loss(pred, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.06)
        losses = (losses + [loss.item()])[-50:]
        if step == WARMUP:
            scores = difficulty(losses)
            members = [r for r, s in enumerate(scores) if s > 1.5 * min(scores)]
            if rank == 0:
                print(f"step {step} difficulty {scores}, specialists: {members}", flush=True)
            if rank in members:
                torch.manual_seed(12)
                special = Specialists(members, 16)
        if special:
            special.step(x, (y - pred).detach())
        if step >= FIRST_CHECK and step % 50 == 0:
            validator = validator or Validator(region)
            error = validator(model.module)
            if rank == 0:
                print(f"step {step} validation {error:.4f}", flush=True)
        if rank == 0 and step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
