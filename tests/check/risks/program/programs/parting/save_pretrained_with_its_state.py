import torch, torch.distributed as dist

rank = dist.get_rank()
fully_shard(model)
state = gathered_state(model)
if rank == 0:
    model.save_pretrained("out", state_dict=state)  # fine
