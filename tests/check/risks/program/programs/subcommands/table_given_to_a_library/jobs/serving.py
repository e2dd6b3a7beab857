import torch.distributed as dist


def setup():
    dist.barrier()
