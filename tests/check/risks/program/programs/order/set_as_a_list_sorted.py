import os, time, torch, torch.distributed as dist

found = list(set(names))
found.sort()
for one in found:  # fine
    dist.broadcast(one, 0)
