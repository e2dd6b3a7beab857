import torch.distributed as dist


def run():
    if dist.get_rank() == 0:
        dist.barrier()  # finds: rank-conditional-collective likely stops if train
