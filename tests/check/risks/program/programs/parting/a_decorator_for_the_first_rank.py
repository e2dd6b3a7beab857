import os, time, torch, torch.distributed as dist


@rank_zero_only
def save():
    dist.barrier()  # finds: rank-conditional-collective likely stops


save()
