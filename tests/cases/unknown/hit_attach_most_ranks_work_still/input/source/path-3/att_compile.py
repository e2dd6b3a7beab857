# A job as its user wrote it.
#
import os, sys, time
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
def compile_model(rank):
    t = time.time()
    while time.time() - t < (2 if rank == 0 else 60):
        torch.randn(200, 200) @ torch.randn(200, 200)
def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(nn.Linear(64, 64))
    for step in range(30):
        if step == 0:
            compile_model(rank)
        model(torch.randn(8, 64)).mean().backward()
        time.sleep(0.03)
    dist.destroy_process_group()

main()
