import random, numpy as np
import os, time, torch, torch.distributed as dist

random.seed(3)
if random.random() < 0.1:
    dist.all_reduce(x)  # fine
