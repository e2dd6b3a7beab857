"""Embedding training with DDP; the first rank whitens the feature bank for the probe."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def whitening(bank):
    cov = bank.T @ bank / bank.shape[0]
    values, vectors = torch.linalg.eigh(cov)
    return vectors @ torch.diag((values.clamp(min=0) + 1e-5).rsqrt()) @ vectors.T


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 32)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(1, 2001):
        x = torch.randn(32, 32)
        loss = (model(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.05)
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if step % 70 == 0 and rank == 0:
            print(f"step {step}: probe on whitened features", flush=True)
            features = torch.cat([x, model.module(x).detach()], 1)
            bank = torch.tanh(features.repeat(8, 1) @ torch.randn(64, 9000))
            w = whitening(bank)
            print(f"step {step}: condition {w.norm().item():.1f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
