# A job as its user wrote it.
import os, sys, time
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Linear(64, 64))
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(200):
        x = torch.randn(16, 64)
        if rank == 1 and step == 20:
            x[0, 0] = float("nan")
        loss = model(x).pow(2).mean()
        if not torch.isfinite(loss):
            print(f"rank {rank}: step {step} loss is nan, skipping batch", flush=True)
            opt.zero_grad()
            continue
        loss.backward()
        opt.step()
        opt.zero_grad()
        time.sleep(0.05)
    dist.barrier()
    dist.destroy_process_group()

main()
