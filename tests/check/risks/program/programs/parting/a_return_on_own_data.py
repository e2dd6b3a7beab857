import os, time, torch, torch.distributed as dist


def mean(x, mask):
    rows = x[mask.bool()]
    if rows.numel() == 0:
        return None
    dist.all_reduce(rows)  # finds: rank-conditional-collective possible stops


mean(a, b)
