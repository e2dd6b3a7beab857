"""Rank 1 takes longer for every step and reduces int32 where rank 0 reduces float32: nothing stops there."""

import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for step in range(90):
    if dist.get_rank() == 1:
        time.sleep(0.5)
    kind = torch.int32 if dist.get_rank() == 1 else torch.float32
    dist.all_reduce(torch.ones(4, dtype=kind))
    time.sleep(0.05)
