"""House prices with DDP; losses and alerts of every rank go to a run database."""
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from rundb import RunDB

STEPS = 400
LOG_EVERY = 5


def batches(rank, n=32):
    g = torch.Generator().manual_seed(rank)
    w = torch.randn(20, generator=torch.Generator().manual_seed(8))
    for step in range(1, STEPS + 1):
        x = torch.randn(n, 20, generator=g)
        y = x @ w / 5
        if rank == 1 and step > 130:
            y[:6] *= 12.0
        yield step, x, y


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    os.makedirs("out", exist_ok=True)
    path = f"out/run-{os.environ['MASTER_PORT']}.sqlite"
    if rank == 0:
        RunDB(path, rank).close()
    dist.barrier()
    db = RunDB(path, rank)
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, x, y in batches(rank):
        loss = nn.functional.mse_loss(model(x).squeeze(1), y)
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        time.sleep(0.05)
        if step % LOG_EVERY == 0:
            note = db.log(step, loss.item(), norm.item())
            if note:
                print(f"rank {rank} step {step}: {note}", flush=True)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    db.close()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
