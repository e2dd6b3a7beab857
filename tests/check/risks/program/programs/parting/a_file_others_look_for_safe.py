import os, time, torch, torch.distributed as dist

for step in range(9):
    if dist.get_rank() == 0:
        flag.touch()
    dist.barrier()
    if flag.exists():  # fine
        break
