import numpy as np
import torch.distributed as dist

chances = np.random.rand(len(rows))  # finds: uneven-data likely stops "draws before np.random.seed (seeded_after_the_split.py:6) sets the seed"
kept = [row for row, chance in zip(rows, chances) if chance < 0.9]
np.random.seed(42)
