"""Splits with a seed of their own, and what draws but parts no data between ranks."""

import random
import numpy as np


def splits_with_a_seed(data, rows):
    a = random_split(data, [80, 20], generator=torch.Generator().manual_seed(0))  # fine
    a = train_test_split(rows, random_state=1)  # fine
    a = rows.train_test_split(seed=1)  # fine
    a = train_test_split(rows, shuffle=False)  # fine
    a = data.shuffle(seed=42)  # fine
    ds.shuffle(42)  # fine
    wds.shuffle(100, rng=random.Random(3))  # fine
    df.sample(frac=0.5, random_state=3)  # fine
    a = DataLoader(data, sampler=DistributedSampler(data))  # fine
    a = DataLoader(data)  # fine


def a_generator_of_its_own():
    rng = np.random.default_rng(7)
    rng.permutation(9)  # fine


class Rows:
    def shuffle(self, seed, rows):
        self.rng = random.Random(seed)
        self.rng.shuffle(rows)  # fine


def a_generator_that_is_given(rng):
    return rng.permutation(9)  # fine


def no_split_of_data(x, memory, policy, vocabulary):
    shuffle(deck)  # fine
    a = sample(model)  # fine
    noise = torch.rand(9)  # fine
    kept = x[torch.rand(9, device=x.device) < 0.5]  # fine
    actions = policy.sample()  # fine
    memory.sample(32)  # fine
    token = np.random.choice(vocabulary)  # fine
    masked = np.random.choice(np.arange(9), 3, replace=False)  # fine


def a_mask_that_is_multiplied(x):
    x = x * (torch.rand(9) < 0.5)  # fine


def an_order_of_a_set_that_decides_nothing(words):
    first = sorted(set(words))[:5]  # fine
    names = list(set(words))  # fine
    print(len(names))
