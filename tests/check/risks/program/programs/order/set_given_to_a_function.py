import os, time, torch, torch.distributed as dist


def send(every):
    for one in every:  # finds: collective-mismatch possible stops
        dist.broadcast(one, 0)


send(list(set(names)))
