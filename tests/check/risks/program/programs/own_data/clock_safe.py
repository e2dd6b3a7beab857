import os, time, torch, torch.distributed as dist

began = time.time()
while step < 60:
    dist.all_reduce(x)  # fine
