import os, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def wrap(model, several):
    return DDP(model, broadcast_buffers=True) if several else model


def build():
    return wrap(Net(), True), 1


model, step = build()


def score(model):
    return model(1)


score(model)
if dist.get_rank() == 0:
    score(model.module)  # fine
dist.barrier()
