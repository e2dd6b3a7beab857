import torch, torch.distributed as dist

rank = dist.get_rank()
if step % 100 == 0:
    dist.barrier()  # fine
