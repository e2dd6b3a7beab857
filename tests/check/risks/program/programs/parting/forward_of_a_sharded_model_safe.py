import os, time, torch, torch.distributed as dist


def build():
    return Net()


def check(model):
    return model(1)


model = build()
if dist.get_rank() == 0:
    check(model)  # fine
dist.barrier()
