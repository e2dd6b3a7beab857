"""FSDP2 over three ranks with an on-call hook that pauses a rank for a memory snapshot."""
import os
import signal
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


def snapshot_pause(step, rank):
    """The node agent takes the snapshot of a stopped process and wakes it up again."""
    if step == 70 and rank == 2:
        print(f"[rank {rank}] paused for the snapshot", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=30))
    rank = dist.get_rank()
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(48, 48), nn.ReLU()) for _ in range(4)]
    model = nn.Sequential(*layers)
    for layer in layers:
        fully_shard(layer)
    fully_shard(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(4000):
        x = torch.randn(12, 48)
        loss = (model(x) - x.abs()).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        time.sleep(0.03)
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        snapshot_pause(step, rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
