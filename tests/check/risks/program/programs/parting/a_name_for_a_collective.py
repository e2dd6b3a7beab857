import os, time, torch, torch.distributed as dist


def gather(x):
    dist.all_gather(x)


def score(spread):
    if spread:
        join = gather
    else:
        join = gather
        if dist.get_rank() != 0:
            return
    join(1)  # finds: rank-conditional-collective likely stops


score(flag)
