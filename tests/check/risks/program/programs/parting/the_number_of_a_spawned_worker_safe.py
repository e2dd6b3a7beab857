import os, time, torch, torch.distributed as dist
import torch.multiprocessing as mp


def run(index, size):
    if size == 0:
        dist.barrier()  # fine


mp.spawn(run, (2,), 2)
