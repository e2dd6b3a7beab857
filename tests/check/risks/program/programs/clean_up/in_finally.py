import os, time, torch, torch.distributed as dist
import atexit, sys


def end():
    dist.destroy_process_group()


try:
    train()
finally:
    end()  # finds: rank-crashed possible note "after an exception on one rank"
