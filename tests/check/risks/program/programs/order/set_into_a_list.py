import os, time, torch, torch.distributed as dist

all = []
for name in set(names):
    all.append(name)
for one in all:  # finds: collective-mismatch possible stops
    dist.broadcast(one, 0)
