from datetime import timedelta
import torch.distributed as dist


def start():
    dist.init_process_group("nccl", timeout=timedelta(minutes=2 * 45))  # finds: init_process_group(timeout=) comes first: 5,400 s
