import os, time, torch, torch.distributed as dist
import atexit, sys


def hook(*error):
    os._exit(1)


sys.excepthook = hook
atexit.register(dist.destroy_process_group)  # fine
