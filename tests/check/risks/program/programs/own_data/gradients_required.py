import os, time, torch, torch.distributed as dist

for one in model.parameters():
    if one.requires_grad is not None:
        dist.all_reduce(one.grad)  # fine
