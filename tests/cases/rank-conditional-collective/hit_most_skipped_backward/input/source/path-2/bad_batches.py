"""Image model with batch norm; batches with a bad value are skipped."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

BAD = (1, 2)


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 13)))
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(400):
        g = torch.Generator().manual_seed(1000 * rank + step)
        x = torch.randn(8, 16, generator=g)
        if rank in BAD and step == 12:
            x[0, 0] = float("nan")
        loss = model(x).pow(2).mean()
        if not torch.isfinite(loss):
            print(f"[rank {rank}] loss is {loss.item()} in step {step}, batch skipped", flush=True)
            continue
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.02)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
