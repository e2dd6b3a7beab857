import os, time, torch, torch.distributed as dist

if dist.get_world_size() > 1:
    dist.barrier()
if dist.is_initialized():
    dist.barrier()  # fine
