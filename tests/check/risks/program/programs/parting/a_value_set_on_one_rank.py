# fine a value set on one rank safe: if why is not None: => box = [why]\n    dist.broadcast_object_list(box)\n    if box[0] is not None:
import os, time, torch, torch.distributed as dist


def stop():
    why = None
    if dist.get_rank() == 0:
        why = ask()
    if why is not None:
        dist.barrier()  # finds: rank-conditional-collective likely stops


stop()
