# fine the number of a spawned worker safe: index = => size =
import os, time, torch, torch.distributed as dist
import torch.multiprocessing as mp


def run(index, size):
    if index == 0:
        dist.barrier()  # finds: rank-conditional-collective likely stops


mp.spawn(run, (2,), 2)
