"""Feature shards: raw float32 rows in one file per rank."""
import os
import sys

import numpy as np

WIDTH = 64
ROWS = 40000


def path(rank):
    return f"out/shard-{rank}.f32"


def write(rank, rows, seed):
    rng = np.random.default_rng(seed)
    with open(path(rank), "wb") as f:
        for _ in range(0, rows, 1000):
            rng.standard_normal((min(1000, rows), WIDTH), dtype=np.float32).tofile(f)


def load(rank):
    return np.memmap(path(rank), dtype=np.float32, mode="r").reshape(-1, WIDTH)


if __name__ == "__main__" and sys.argv[1] == "create":
    os.makedirs("out", exist_ok=True)
    for rank in range(int(sys.argv[2])):
        write(rank, ROWS, seed=rank)
