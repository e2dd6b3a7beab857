import numpy as np
import torch.distributed as dist

np.random.seed(42)
chances = np.random.rand(len(rows))  # fine
kept = [row for row, chance in zip(rows, chances) if chance < 0.9]
