# fine table filled safe: told = measured => shown = measured
import os, time, torch, torch.distributed as dist


def report(rows):
    told = dict(loss=0.0)
    if dist.get_rank() == 0:
        told = measured(rows)
    for name, value in told.items():
        dist.all_reduce(value)  # finds: rank-conditional-collective possible stops


report(rows)
