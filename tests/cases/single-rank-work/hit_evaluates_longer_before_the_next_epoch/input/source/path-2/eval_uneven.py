# A job as its user wrote it.
#
import os, sys, time
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
def evaluate(net, rank):
    t = time.time()
    while time.time() - t < 2 + (40 if rank == 2 else 0):
        net(torch.randn(16, 64))
def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    net = nn.Linear(64, 64)
    model = DDP(net)
    for epoch in range(3):
        for step in range(40):
            model(torch.randn(8, 64)).mean().backward()
            time.sleep(0.03)
        evaluate(net, rank)
    dist.barrier()
    dist.destroy_process_group()

main()
