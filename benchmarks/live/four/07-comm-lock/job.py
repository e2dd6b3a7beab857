"""Training loop whose statistics are pooled by a thread of its own, every few seconds."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

from comm import Communicator, StatsThread


def batch(rank, step):
    g = torch.Generator().manual_seed(step * 64 + rank)
    x = torch.randn(32, 20, generator=g)
    return x, x[:, :1] * x[:, 1:2]


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 1))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    comm = Communicator(dist.new_group(timeout=timedelta(hours=1)))
    stats = StatsThread(comm, every=6.0, first=rank == 0)
    stats.start()
    started = time.time()
    for step in range(1, 20001):
        x, y = batch(rank, step)
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        for p in model.parameters():
            comm.average(p.grad)
        opt.step()
        stats.add(loss.item(), len(x))
        time.sleep(0.01)
        if rank == 0 and step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f} ({time.time() - started:.1f}s)", flush=True)
    stats.stop()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
