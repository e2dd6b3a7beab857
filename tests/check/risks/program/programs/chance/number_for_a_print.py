import random, numpy as np
import os, time, torch, torch.distributed as dist

if random.random() < 0.1:  # fine
    print(1)
dist.all_reduce(x)
