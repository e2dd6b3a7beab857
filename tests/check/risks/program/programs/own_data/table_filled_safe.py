import os, time, torch, torch.distributed as dist


def report(rows):
    told = dict(loss=0.0)
    if dist.get_rank() == 0:
        shown = measured(rows)
    for name, value in told.items():
        dist.all_reduce(value)  # fine


report(rows)
