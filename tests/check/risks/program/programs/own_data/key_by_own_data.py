import os, time, torch, torch.distributed as dist


def fill():
    found = {}
    if x[mask.bool()].sum() > 0:
        found["loss"] = 1
    return found


for key, value in fill().items():
    dist.all_reduce(value)  # finds: rank-conditional-collective possible stops
