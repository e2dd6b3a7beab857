import os, time, torch, torch.distributed as dist

if lora_rank == 0:
    print(1)
if os.environ.get("LOCAL_RANK") is not None:
    dist.barrier()  # fine
