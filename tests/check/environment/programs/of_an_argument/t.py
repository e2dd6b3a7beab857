# launch: torchrun t.py --minutes 90
from datetime import timedelta
import torch.distributed as dist
import argparse

p = argparse.ArgumentParser()
p.add_argument("--minutes", type=int, default=10)
args = p.parse_args()
dist.init_process_group("nccl", timeout=timedelta(minutes=args.minutes))  # finds: 5,400 s (init_process_group(timeout=))
