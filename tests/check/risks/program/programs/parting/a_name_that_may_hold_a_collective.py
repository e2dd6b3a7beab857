# fine a name for a collective safe: else: => else:\n        join = abs && return\n        join = abs => print(1)
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
