import torch.distributed as dist


def init_distributed():
    dist.init_process_group("gloo")


init_distributed()
