import os, time, torch, torch.distributed as dist

rank = dist.get_rank()
alone = dist.new_group([rank])  # fine
alone = dist.new_group(ranks=[dist.get_rank()])  # fine
pair = dist.new_group([rank, rank ^ 1])  # finds: rank-conditional-collective possible stops "new_group"
