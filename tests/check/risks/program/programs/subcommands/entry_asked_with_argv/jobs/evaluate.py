import torch.distributed as dist


def run():
    if dist.get_rank() == 1:
        dist.barrier()  # finds: rank-conditional-collective likely stops if evaluate
