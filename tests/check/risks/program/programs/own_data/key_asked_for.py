import os, time, torch, torch.distributed as dist


def fill():
    found = {}
    if dist.get_rank() == 3:
        found["loss"] = 1
    return found


def whiten(all):
    if all.get("loss") is None:
        return
    dist.all_reduce(x)  # finds: rank-conditional-collective possible stops


all = {}
all.update(fill())
whiten(all)
