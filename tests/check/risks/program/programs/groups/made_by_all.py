import os, time, torch, torch.distributed as dist

n = int(os.environ["WORLD_SIZE"])
rank = dist.get_rank()
for ranks in pairs:
    made = dist.new_group(ranks)  # fine
    if rank in ranks:
        group = made
