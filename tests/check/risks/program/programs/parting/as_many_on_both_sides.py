from ranks import first, together
import torch, torch.distributed as dist

if first():
    dist.all_reduce(x)  # finds: rank-conditional-collective likely stops
else:
    dist.barrier()
