import os, time, torch, torch.distributed as dist


@rank_zero_only
def save():
    print(1)


save()  # fine
dist.barrier()
