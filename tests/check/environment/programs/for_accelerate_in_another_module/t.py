# launch: torchrun t.py
from datetime import timedelta
import torch.distributed as dist
from inner import make

accelerator = make()
