import random

import torch
from torch.utils.data import random_split


def load(rows):
    random.shuffle(rows)  # fine
    return random_split(rows, [8, 2])  # fine


def fix(seed):
    random.seed(seed)
    torch.manual_seed(seed)


def main(seed, only_test=False):
    if only_test:
        return load([1])
    fix(seed)
    return load(list(range(10)))


if __name__ == "__main__":
    main(42)
