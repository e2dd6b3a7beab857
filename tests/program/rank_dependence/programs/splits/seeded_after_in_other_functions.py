import random

import torch
from torch.utils.data import random_split


def load(rows):
    random.shuffle(rows)  # finds: random.shuffle no-seed python, seeded at 13: random.seed
    return random_split(rows, [8, 2])  # finds: random_split no-seed torch, seeded at 14: torch.manual_seed


def fix(seed):
    random.seed(seed)
    torch.manual_seed(seed)


def main(seed):
    parts = load(list(range(10)))
    fix(seed)
    return parts


if __name__ == "__main__":
    main(42)
