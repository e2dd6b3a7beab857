from ranks import first, together
import torch, torch.distributed as dist


def begin():
    if not first():
        dist.barrier()  # fine


def end():
    if first():
        dist.barrier()


def load():
    begin()
    work()
    end()


load()
