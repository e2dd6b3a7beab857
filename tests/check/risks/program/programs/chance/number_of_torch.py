import random, numpy as np
import os, time, torch, torch.distributed as dist

if torch.rand(1).item() < 0.1:
    dist.all_reduce(x)  # finds: rank-conditional-collective possible stops
