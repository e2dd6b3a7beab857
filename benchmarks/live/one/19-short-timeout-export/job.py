"""DDP; every 60 steps the first rank exports and checks the model while the others go on."""
import io
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def export_and_check(model, seconds):
    buf = io.BytesIO()
    torch.save(model.state_dict(), buf)
    end = time.monotonic() + seconds
    x = torch.randn(400, 28)
    with torch.no_grad():
        while time.monotonic() < end:
            model(x).var()
    return buf.tell()


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=12))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(28, 56), nn.ReLU(), nn.Linear(56, 28)))
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(1, 181):
        x = torch.randn(32, 28)
        loss = (model(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.05)
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if step % 60 == 0 and rank == 0:
            print(f"step {step}: exporting", flush=True)
            size = export_and_check(model.module, seconds=25)
            print(f"step {step}: exported {size} bytes", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
