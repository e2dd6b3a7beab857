# launch: torchrun t.py
from datetime import timedelta
import torch.distributed as dist

H = 2
LIMIT = timedelta(hours=H)
dist.init_process_group("nccl", None, LIMIT)  # finds: init_process_group(timeout=) comes first: 7,200 s
