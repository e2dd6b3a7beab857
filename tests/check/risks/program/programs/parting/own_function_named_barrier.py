import os, time, torch, torch.distributed as dist


def barrier():
    print("-----")


if dist.get_rank() == 0:
    barrier()  # fine
