import torch, torch.distributed as dist

rank = dist.get_rank()
if rank != 0:
    dist.barrier()
work()
if rank == 0:
    dist.barrier()  # fine
