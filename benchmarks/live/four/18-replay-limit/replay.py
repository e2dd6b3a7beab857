"""Replay of image sequences, kept as bytes; the frames of a sequence are views of one array."""
import random
from collections import deque

import numpy as np
import torch

LENGTH = {0: 8, 1: 24}


def sequence(rank, step):
    """Frames from the rank's camera."""
    rng = np.random.default_rng(step)
    start = rng.integers(0, 256, (3, 32, 32), dtype=np.uint8)
    return np.stack([np.roll(start, i, axis=2) for i in range(LENGTH.get(rank, 8))])


class Replay:
    def __init__(self, keep, seed):
        self.items = deque(maxlen=keep)
        self.rng = random.Random(seed)

    def __len__(self):
        return len(self.items)

    def add(self, frames):
        self.items.append(torch.from_numpy(frames).float() / 255)

    def sample(self, count):
        now, later = [], []
        for item in self.rng.choices(self.items, k=count):
            i = self.rng.randrange(len(item) - 1)
            now.append(item[i])
            later.append(item[i + 1])
        return torch.stack(now), torch.stack(later)
