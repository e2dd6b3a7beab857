import os, time, torch, torch.distributed as dist

n = int(os.environ["WORLD_SIZE"])
rank = dist.get_rank()
group = dist.new_group([engine.grid.pp_group[0], engine.grid.pp_group[-1]])  # finds: rank-conditional-collective possible stops "new_group"
