import random, numpy as np
import os, time, torch, torch.distributed as dist

skip = np.random.rand() < 0.1
if not skip:
    dist.all_reduce(x)  # finds: rank-conditional-collective possible stops
