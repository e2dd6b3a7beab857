import os, time, torch, torch.distributed as dist

n = int(os.environ["WORLD_SIZE"])
rank = dist.get_rank()
group = dist.new_group(list(range(n)))
if rank in heads:
    dist.all_reduce(x, group=group)  # fine
