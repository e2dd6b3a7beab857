import os, time, torch, torch.distributed as dist


def send(every):
    for one in every:  # finds: collective-mismatch possible stops "list(set(names)) (set_handed_over.py:10)"
        dist.broadcast(one, 0)


def all(names):
    send(list(set(names)))


all(rows)
