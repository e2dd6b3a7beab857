from ranks import first, together
import torch, torch.distributed as dist


def save():
    together()


if first():
    save()  # finds: rank-conditional-collective likely stops
