import os, time, torch, torch.distributed as dist

if dist.get_rank() == 0:
    if os.path.exists("x"):
        raise FileExistsError
dist.barrier()  # fine
