# fine behind a call in another file safe: save()  # fine => print(1)\nsave()
from ranks import first, together
import torch, torch.distributed as dist


def save():
    together()


if first():
    save()  # finds: rank-conditional-collective likely stops
