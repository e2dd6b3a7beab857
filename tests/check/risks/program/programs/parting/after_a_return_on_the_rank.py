import torch, torch.distributed as dist

rank = dist.get_rank()


def save():
    if rank != 0:
        return
    dist.all_reduce(x)  # finds: rank-conditional-collective likely stops
