from ranks import first, together
import torch, torch.distributed as dist


def begin():
    if not first():
        dist.barrier()  # finds: rank-conditional-collective likely stops


def load():
    begin()
    work()


load()
