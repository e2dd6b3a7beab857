import os, time, torch, torch.distributed as dist
import atexit, sys

atexit.register(dist.destroy_process_group)  # finds: rank-crashed possible note "after an exception on one rank"
train()
