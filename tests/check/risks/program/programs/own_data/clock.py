import os, time, torch, torch.distributed as dist

began = time.time()
while time.time() - began < 60:
    dist.all_reduce(x)  # finds: rank-conditional-collective possible stops
