"""Polite training on a shared workstation: all ranks rest after each step, longer during office hours (simulated)."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

HOURS = [0.03, 0.03, 0.15, 0.2, 0.2, 0.15, 0.03, 0.03]
STEPS = 900


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Conv1d(4, 32, 7, padding=3), nn.GELU(), nn.Conv1d(32, 32, 7, padding=3), nn.GELU(), nn.Conv1d(32, 1, 7, padding=3)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(rank)
    started = time.time()
    for step in range(1, STEPS + 1):
        x = torch.randn(8, 4, 200, generator=g).cumsum(-1)
        x = (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)
        loss = nn.functional.mse_loss(model(x), x.mean(1, keepdim=True).roll(3, -1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(HOURS[step * len(HOURS) // (STEPS + 1)])
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f} {(time.time() - started) / 20:.3f} s/step", flush=True)
            started = time.time()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
