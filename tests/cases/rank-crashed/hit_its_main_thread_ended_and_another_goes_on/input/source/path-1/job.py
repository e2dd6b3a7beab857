"""Sensor classifier with DDP on three ranks; each rank tracks its own metrics."""
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torchmetrics.classification import MulticlassAccuracy

from tracking import Tracker

UNITS = {"C": 0, "F": 1, "K": 2}


def records(rank):
    g = torch.Generator().manual_seed(rank)
    n = 0
    while True:
        values = torch.randn(24, 10, generator=g)
        kinds = (values[:, 0] > 0).long() + (values[:, 1] > 0).long()
        units = ["CFK"[k] for k in kinds.tolist()]
        n += 1
        if rank == 2 and n == 100:
            units[5] = "R"
        yield values, units


def to_labels(units):
    return torch.tensor([UNITS[u] for u in units])


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    os.makedirs("out", exist_ok=True)
    tracker = Tracker(f"out/metrics-{rank}.jsonl")
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 3)))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    accuracy = MulticlassAccuracy(num_classes=3, sync_on_compute=False)
    for step, (values, units) in enumerate(records(rank)):
        y = to_labels(units)
        logits = model(values)
        loss = nn.functional.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        accuracy.update(logits.detach(), y)
        tracker.log(step=step, loss=loss.item())
        time.sleep(0.05)
        if step % 20 == 0:
            tracker.log(step=step, accuracy=accuracy.compute().item())
            accuracy.reset()
            if rank == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
        if step == 3000:
            break
    tracker.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
