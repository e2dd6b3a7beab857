from datetime import timedelta
import torch.distributed as dist


def start():
    dist.init_process_group("nccl", timeout=timedelta(minutes=2 * 45))  # finds: 5,400 s (init_process_group(timeout=))
