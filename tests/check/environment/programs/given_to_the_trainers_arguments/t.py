# launch: torchrun t.py --output_dir o
from datetime import timedelta
import torch.distributed as dist

args = TrainingArguments(output_dir="o", ddp_timeout=3 * 3600)  # finds: 10,800 s (ddp_timeout)
