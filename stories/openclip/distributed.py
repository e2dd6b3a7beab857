import os
from datetime import timedelta

import torch.distributed as dist


def is_master(args):
    return args.rank == 0


def init_distributed_device(args):
    args.distributed = int(os.environ.get("WORLD_SIZE", "1")) > 1
    args.rank, args.world_size = 0, 1
    if args.distributed:
        dist.init_process_group(args.dist_backend, timeout=timedelta(seconds=10))
        args.rank, args.world_size = dist.get_rank(), dist.get_world_size()
