"""What the flow of values knows: order, calls, presence, and what ranks agree on."""
import os

import torch.distributed as dist

from elsewhere import is_master

rank = dist.get_rank()


def late(metrics):
    should_log = metrics.enabled
    if should_log:
        dist.barrier()  # fine
        should_log = dist.get_rank() == 0
    if should_log:
        dist.barrier()  # finds: if should_log


def of_another_file(args):
    if is_master(args):
        dist.barrier()  # finds: if is_master(args) by name


def as_a_text():
    if os.environ["RANK"] == "0":
        dist.barrier()  # finds: if os.environ['RANK'] == '0'
    if os.environ["RANK"] != "none":
        dist.barrier()  # fine


def reader():
    if rank == 0:
        return open("rows")  # finds: if rank == 0
    return None  # finds: return rank == 0


def given(rows):
    dist.barrier()  # fine


def by_presence():
    rows = reader()
    if rows:
        dist.barrier()  # finds: if rows
    given(rows.read() if rows else None)  # fine


def names_of_a_comprehension(found):
    if rank == 0:
        print([v for v in range(rank)])  # finds: if rank == 0
    if any(v in found for v in ("a", "b")):
        dist.barrier()  # fine


def told_by_another(steps):
    stop = rank == 1
    if rank == 0:
        dist.recv(stop, src=1)  # finds: if rank == 0
    else:
        dist.send(stop, dst=0)  # finds: else rank == 0
    if stop:
        dist.barrier()  # fine
