import torch, torch.distributed as dist

rank = dist.get_rank()
if rank == 0:
    dist.barrier()  # finds: rank-conditional-collective likely stops
