import torch, torch.distributed as dist

rank = dist.get_rank()
fully_shard(model)
if rank == 0:
    torch.save(model.state_dict(), "x")  # finds: rank-conditional-collective likely stops
