import os, time, torch, torch.distributed as dist
import atexit, sys

atexit.register(print)  # fine
train()
