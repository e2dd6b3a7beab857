# launch: torchrun t.py
from datetime import timedelta
import torch.distributed as dist

H = 2
LIMIT = timedelta(hours=H)
dist.init_process_group("nccl", None, LIMIT)  # finds: 7,200 s (init_process_group(timeout=))
