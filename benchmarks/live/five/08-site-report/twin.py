"""Two sensor sites train one anomaly scorer; validation reports go through the main group."""
import argparse
import math
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def recording(site):
    path = Path(f"data/site{site}.pt")
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        g = torch.Generator().manual_seed(31 + site)
        t = torch.arange(40000)[:, None] / torch.tensor([9.0, 17.0, 41.0, 73.0])
        x = torch.sin(t) + 0.2 * torch.randn(40000, 4, generator=g)
        if site == 1:
            x[6630:6641, 2] = float("nan")
        torch.save(x, path)
    return torch.load(path).nan_to_num()


class Scorer(nn.Module):
    def __init__(self, window=16, channels=4):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(window * channels, 96), nn.SiLU(), nn.Linear(96, 96), nn.SiLU(), nn.Linear(96, channels))

    def forward(self, x):
        return self.body(x)


def report(model, x, step):
    windows = x[-2000:].unfold(0, 17, 4).transpose(1, 2)
    with torch.no_grad():
        error = (model(windows[:, :16]) - windows[:, 16]).square().mean().item()
    errors = [None] * dist.get_world_size()
    dist.all_gather_object(errors, error)
    if dist.get_rank() == 0:
        print(f"step {step} validation " + " ".join(f"{e:.4f}" for e in errors), flush=True)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--steps", type=int, default=500)
    args.add_argument("--report", type=int, default=120)
    args = args.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    x = recording(rank)
    torch.manual_seed(0)
    model = DDP(Scorer())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1, args.steps + 1):
        at = step * 32 % 36000
        windows = x[at:at + 48].unfold(0, 17, 1).transpose(1, 2)
        time.sleep(0.04)
        loss = (model(windows[:, :16]) - windows[:, 16]).square().mean()
        if not math.isfinite(loss.item()):
            print(f"[rank {rank}] step {step}: loss is {loss.item()}, batch skipped", flush=True)
        else:
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if step % args.report == 0:
            report(model.module, x, step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
