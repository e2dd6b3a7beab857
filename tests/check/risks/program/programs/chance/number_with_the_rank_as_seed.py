import random, numpy as np
import os, time, torch, torch.distributed as dist

random.seed(dist.get_rank())
if random.random() < 0.1:
    dist.all_reduce(x)  # finds: rank-conditional-collective possible stops
