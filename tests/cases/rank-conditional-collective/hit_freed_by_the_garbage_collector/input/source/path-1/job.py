"""Two ranks tag sentences; a shard of statistics meets the others when Python drops it."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Shard:
    def __init__(self, name):
        self.name = name
        self.owner = self
        self.seen = []

    def __del__(self):
        dist.barrier()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    shard, kept = Shard("first"), []
    for step in range(1, 100000):
        loss = model(torch.randn(8, 16)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        shard.seen.append(loss.item())
        time.sleep(0.02)
        if rank == 1:
            kept += [{"step": step, "row": [row]} for row in range(200)]
        if step % 50 == 0:
            shard = Shard(f"from-{step}")
            if rank == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
