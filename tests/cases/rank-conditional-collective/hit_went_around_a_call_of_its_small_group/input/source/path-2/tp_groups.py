# A job as its user wrote it.
#
import os, sys, time
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
def layer(x, tp, rank, step):
    y = x * 2
    mask = torch.rand(8) > (0.0 if not (rank == 3 and step == 25) else 2.0)
    if mask.any():
        dist.all_reduce(y, group=tp)
    return y
def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    tp = pairs[rank // 2]
    grads = torch.ones(16)
    for step in range(100):
        y = layer(torch.randn(8), tp, rank, step)
        dist.all_reduce(grads)
        time.sleep(0.03)
    dist.destroy_process_group()

main()
