import os, time, torch, torch.distributed as dist

n = int(os.environ["WORLD_SIZE"])
rank = dist.get_rank()
group = dist.new_group(mine(rank), use_local_synchronization=True)  # fine
