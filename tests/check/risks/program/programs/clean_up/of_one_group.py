import os, time, torch, torch.distributed as dist
import atexit, sys

try:
    train()
finally:
    dist.destroy_process_group(small)  # fine
