# fine handed down false: rank, False => sync=False
# fine handed down no rank: rank, => -1,
# also handed down true: rank, False => sync=True
import os, time, torch, torch.distributed as dist
from contextlib import contextmanager


@contextmanager
def first_alone(rank):
    if rank not in (-1, 0):
        dist.barrier()
    yield
    if rank == 0:
        dist.barrier()


def load(path, rank=-1, sync=True):
    with first_alone(rank):
        rows = open(path)
    if sync:
        dist.all_reduce(rows)
    return rows


rank = dist.get_rank()
if rank == 0:
    rows = load("x", rank, False)  # finds: rank-conditional-collective likely stops
dist.barrier()
