import torch, torch.distributed as dist

rank = dist.get_rank()
if rank == 0:
    torch.save(model.state_dict(), "x")  # fine
