"""Click model with DDP; AUROC of the held-out part after every second epoch."""
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from torchmetrics.classification import BinaryAUROC


def make_data(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 24, generator=g)
    y = ((x[:, :4].sum(1) + 0.5 * torch.randn(n, generator=g)) > 0).long()
    return TensorDataset(x, y)


def evaluate(model, loader, metric):
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            metric.update(torch.sigmoid(model.module(x).squeeze(1)), y)
    model.train()


def write_report(score, epoch):
    # per-feature ablation, only the first rank has the feature names
    end = time.monotonic() + 6
    w = torch.randn(200, 200)
    while time.monotonic() < end:
        w = torch.tanh(w @ w.T / 200)
    print(f"report for epoch {epoch}: auroc {score:.4f}", flush=True)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=30))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 1)))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    train, held_out = make_data(1920, 1), make_data(960, 2)
    sampler = DistributedSampler(train)
    loader = DataLoader(train, batch_size=32, sampler=sampler)
    val_loader = DataLoader(held_out, batch_size=64, sampler=DistributedSampler(held_out, shuffle=False))
    auroc = BinaryAUROC(thresholds=50)
    step = 0
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y.float())
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            time.sleep(0.03)
            if rank == 0 and step % 10 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        if epoch % 2 == 1:
            evaluate(model, val_loader, auroc)
            score = auroc.compute()
            if rank == 0:
                write_report(score.item(), epoch)
                print(f"epoch {epoch} held-out auroc {score.item():.4f}", flush=True)
            auroc.reset()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
