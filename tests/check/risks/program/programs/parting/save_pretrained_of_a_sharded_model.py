import torch, torch.distributed as dist

rank = dist.get_rank()
fully_shard(model)
if rank == 0:
    model.save_pretrained("out")  # finds: rank-conditional-collective likely stops
