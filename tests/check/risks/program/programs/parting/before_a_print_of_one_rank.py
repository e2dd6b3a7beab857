import torch, torch.distributed as dist

rank = dist.get_rank()
dist.barrier()  # fine
if rank == 0:
    print("x")
