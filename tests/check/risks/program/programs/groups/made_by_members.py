import os, time, torch, torch.distributed as dist

n = int(os.environ["WORLD_SIZE"])
rank = dist.get_rank()
for ranks in pairs:
    if rank in ranks:
        group = dist.new_group(ranks)  # finds: rank-conditional-collective possible stops "new_group"
