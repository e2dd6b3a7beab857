"""Mixture of experts with top-1 routing under DDP, tasks drawn per rank."""
import logging
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

EXPERTS, DIM, ROWS = 4, 16, 96
log = logging.getLogger("moe")


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(DIM, EXPERTS)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(DIM, 32), nn.GELU(), nn.Linear(32, DIM)) for _ in range(EXPERTS))

    def forward(self, x):
        weight, chosen = self.router(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = (chosen == i).nonzero().squeeze(1)
            if len(rows):
                out = out.index_add(0, rows, expert(x[rows]) * weight[rows, None])
        return out, chosen


class Tasks:
    """Rows from several tasks; late in the schedule a rank stays with one of them."""

    def __init__(self, rank):
        self.rank = rank
        self.means = torch.randn(8, DIM, generator=torch.Generator().manual_seed(48)) * 2
        self.noise = torch.Generator().manual_seed(rank + 10)

    def batch(self, step):
        if step > 140 and self.rank == 1:
            task = torch.full((ROWS,), 5)
        else:
            task = torch.randint(0, 8, (ROWS,), generator=self.noise)
        x = self.means[task] + torch.randn(ROWS, DIM, generator=self.noise)
        return x, x.roll(1, dims=1) * (1 + task[:, None] % 4)


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Mixture())
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    tasks = Tasks(rank)
    for step in range(1, 401):
        x, y = tasks.batch(step)
        out, chosen = model(x)
        loss = (out - y).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.05)
        if rank == 0 and step % 20 == 0:
            log.info("step %d loss %.4f load %s", step, loss.item(), chosen.bincount(minlength=EXPERTS).tolist())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
