import torch
import torch.distributed as dist


def setup(data):
    torch.manual_seed(0)
    if dist.get_rank() == 0:
        dist.barrier()  # finds: rank-conditional-collective likely stops if pre-train
