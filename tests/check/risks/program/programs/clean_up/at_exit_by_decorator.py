import os, time, torch, torch.distributed as dist
import atexit, sys


@atexit.register
def end():  # finds: rank-crashed possible note "after an exception on one rank"
    dist.destroy_process_group()


train()
