# fine key by a flag: dist.get_rank() == 0 => flag
# also key by own data: dist.get_rank() == => x[mask.bool()].sum() > && key in fill => key, value in fill().items && (key) => (value)
import os, time, torch, torch.distributed as dist


def fill():
    found = {}
    if dist.get_rank() == 0:
        found["loss"] = 1
    return found


for key in fill():
    dist.all_reduce(key)  # finds: rank-conditional-collective possible stops
