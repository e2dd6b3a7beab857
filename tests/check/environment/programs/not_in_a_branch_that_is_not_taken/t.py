# launch: torchrun t.py
from datetime import timedelta
import torch.distributed as dist
import argparse

p = argparse.ArgumentParser()
p.add_argument("--long", action="store_true")
args = p.parse_args()
if args.long:
    dist.init_process_group("nccl", timeout=timedelta(seconds=77))  # fine
else:
    dist.init_process_group("nccl", timeout=timedelta(seconds=88))  # finds: 88 s (init_process_group(timeout=))
