import os, time, torch, torch.distributed as dist


def read(path):
    if os.path.exists(path):
        return load(path)
    if dist.get_rank() == 0:
        torch.save(make(), path)
    dist.barrier()  # finds: rank-conditional-collective possible stops
    return load(path)


read("x")
