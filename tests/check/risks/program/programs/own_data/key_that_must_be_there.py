import os, time, torch, torch.distributed as dist


def fill():
    found = {}
    if dist.get_rank() == 3:
        found["loss"] = 1
    return found


found = fill()
found["x"].item()
dist.all_reduce(found["x"])  # fine
