# A job as its user wrote it.
#
import os, sys, time
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
def save(path):
    t = time.time()
    while time.time() - t < 60:
        torch.save(torch.zeros(10_000_000), path)
def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(nn.Linear(64, 64))
    for step in range(3000):
        model(torch.randn(8, 64)).mean().backward()
        if rank == 0 and step == 20:
            save(os.environ["TRAIN_TMP"] + "/a.pt")
        time.sleep(0.05)
    dist.destroy_process_group()

main()
