import datetime, hashlib
import torch, torch.distributed as dist
from accel import Accelerator

accelerator = Accelerator()


def build_index():
    digest = b"0"
    for _ in range(100_000_000):
        digest = hashlib.sha256(digest).digest()
    return digest


for i in range(3):
    accelerator.reduce(torch.ones(2))
if accelerator.process_index == 1:
    build_index()
dist.monitored_barrier(timeout=datetime.timedelta(seconds=8))
