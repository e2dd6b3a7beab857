import os, time, torch, torch.distributed as dist

[dist.broadcast(one, 0) for one in a.keys() & b.keys()]  # finds: collective-mismatch possible stops
