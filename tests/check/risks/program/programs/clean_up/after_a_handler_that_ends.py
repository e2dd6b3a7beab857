import os, time, torch, torch.distributed as dist
import atexit, sys

try:
    train()
except Exception:
    os._exit(1)
finally:
    dist.destroy_process_group()  # fine
