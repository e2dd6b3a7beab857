import os, time, torch, torch.distributed as dist


def gather(x):
    dist.all_gather(x)


def score(spread):
    if spread:
        join = gather
    else:
        join = abs
        if dist.get_rank() != 0:
            print(1)
    join(1)  # fine


score(flag)
