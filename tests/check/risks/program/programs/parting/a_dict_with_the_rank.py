import os, time, torch, torch.distributed as dist


def start():
    rank = dist.get_rank()
    return dict(rank=rank, several=os.cpu_count() > 1)


def state():
    return {"rank": dist.get_rank(), "name": "run"}


got, other = start(), state()
if got["rank"] == 0:
    dist.barrier()  # finds: rank-conditional-collective likely stops
if other["name"] == "run":
    dist.barrier()  # fine
