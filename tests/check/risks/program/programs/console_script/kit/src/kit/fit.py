# launch: uv run kit fit
import os, time, torch, torch.distributed as dist

if dist.get_rank() == 0:
    dist.barrier()  # finds: rank-conditional-collective likely stops if fit
