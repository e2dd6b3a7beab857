from datetime import timedelta
import torch.distributed as dist


def make():
    kwargs = InitProcessGroupKwargs(timeout=timedelta(seconds=5400))  # finds: InitProcessGroupKwargs(timeout=) comes first: 5,400 s
    return Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(bucket_cap_mb=5), kwargs])
