import os, time, torch, torch.distributed as dist

start = time.time()
for step in range(9):
    if time.time() - start > 60:
        break
    dist.barrier()  # finds: rank-conditional-collective possible stops
