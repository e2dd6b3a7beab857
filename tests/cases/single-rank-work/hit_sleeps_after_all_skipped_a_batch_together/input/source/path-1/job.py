"""Regression on shards; a batch whose loss is not finite is left out."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def shard(rank):
    rows = torch.randn(400, 16, generator=torch.Generator().manual_seed(rank))
    rows[251, 3] = float("nan")
    return rows


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=45))
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 1)))
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    rows = shard(rank)
    for step in range(100):
        batch = rows[step * 4 : step * 4 + 4]
        loss = net(batch).square().mean()
        if not torch.isfinite(loss):
            print(f"loss is {loss.item()} in step {step}, batch skipped", flush=True)
            continue
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        time.sleep(0.05)
    if rank == 1:
        time.sleep(600)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
