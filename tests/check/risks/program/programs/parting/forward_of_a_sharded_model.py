import os, time, torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard


def build():
    model = Net()
    fully_shard(model)
    return model


def check(model):
    return model(1)


model = build()
if dist.get_rank() == 0:
    check(model)  # finds: rank-conditional-collective likely stops
