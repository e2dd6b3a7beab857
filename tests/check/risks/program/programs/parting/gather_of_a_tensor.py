import torch, torch.distributed as dist

rank = dist.get_rank()
if rank == 0:
    x = torch.gather(a, 0, i)  # fine
