import os, time, torch, torch.distributed as dist

for step in range(9):
    dist.barrier()  # finds: rank-conditional-collective possible stops
    if dist.get_rank() == 0:
        flag.touch()
    if flag.exists():
        break
