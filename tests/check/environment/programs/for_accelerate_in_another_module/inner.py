from datetime import timedelta
import torch.distributed as dist


def make():
    kwargs = InitProcessGroupKwargs(timeout=timedelta(seconds=5400))  # finds: 5,400 s (InitProcessGroupKwargs(timeout=))
    return Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(bucket_cap_mb=5), kwargs])
