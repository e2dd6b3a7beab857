# fine attribute unwrapped: = model => = model.module if hasattr(model, "module") else model
import os, time, torch, torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


class Engine:
    def __init__(self):
        self.actor = FSDP(net)


def save(model):
    inner = model
    return inner.state_dict()


def main(engine):
    if dist.get_rank() == 0:
        save(engine.actor)  # finds: rank-conditional-collective likely stops


main(Engine())
