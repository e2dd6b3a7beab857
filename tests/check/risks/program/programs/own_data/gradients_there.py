import os, time, torch, torch.distributed as dist

for one in model.parameters():
    if one.grad is not None:
        dist.all_reduce(one.grad)  # finds: rank-conditional-collective possible stops
