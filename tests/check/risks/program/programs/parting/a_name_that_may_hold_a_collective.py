import os, time, torch, torch.distributed as dist


def gather(x):
    dist.all_gather(x)


def score(spread):
    if spread:
        join = gather
    else:
        if dist.get_rank() != 0:
            return
        join = abs
    join(1)  # finds: rank-conditional-collective possible stops


score(flag)
