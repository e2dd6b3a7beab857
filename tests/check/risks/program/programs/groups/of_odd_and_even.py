import os, time, torch, torch.distributed as dist

n = int(os.environ["WORLD_SIZE"])
rank = dist.get_rank()
group = dist.new_group(ranks=[r for r in range(n) if r % 2 == rank % 2])  # finds: rank-conditional-collective possible stops "new_group"
