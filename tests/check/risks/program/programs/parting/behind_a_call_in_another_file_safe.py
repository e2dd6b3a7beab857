from ranks import first, together
import torch, torch.distributed as dist


def save():
    together()


if first():
    print(1)
save()  # fine
