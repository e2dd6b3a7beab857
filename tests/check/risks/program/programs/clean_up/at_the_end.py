import os, time, torch, torch.distributed as dist
import atexit, sys

train()
dist.destroy_process_group()  # fine
