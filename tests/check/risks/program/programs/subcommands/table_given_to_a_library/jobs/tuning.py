import torch
import torch.distributed as dist

from jobs.rows import Rows


def setup(data):
    rows = Rows(data)
    rows.setup()
    torch.manual_seed(1)
    dist.barrier()
