import os, time, torch, torch.distributed as dist


def fill():
    found = {}
    if flag:
        found["loss"] = 1
    return found


for key in fill():
    dist.all_reduce(key)  # fine
