"""Convolutional denoiser, each rank bound to a core of its own."""
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 500


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    core = int(os.environ["CORES"].split()[rank])
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 3, padding=1)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(rank)
    started = time.time()
    for step in range(1, STEPS + 1):
        clean = torch.rand(16, 1, 8, 8, generator=g).repeat_interleave(6, 2).repeat_interleave(6, 3)
        noisy = clean + 0.2 * torch.randn(clean.shape, generator=g)
        loss = nn.functional.mse_loss(model(noisy), clean)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f} {(time.time() - started) / 20:.3f} s/step", flush=True)
            started = time.time()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
