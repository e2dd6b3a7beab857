from ranks import first, together
import torch, torch.distributed as dist


def save():
    together()


def main():
    if first():
        save()  # finds: rank-conditional-collective likely stops
    dist.all_reduce(x)


main()
