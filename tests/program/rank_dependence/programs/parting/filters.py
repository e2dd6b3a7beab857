"""Draws that decide which rows are kept, and draws in the same functions that decide an order only."""

import random

import numpy as np
import torch
from torch.utils.data import Subset


def a_number_by_name(rows):
    order = np.random.permutation(len(rows))  # fine
    chances = np.random.rand(len(rows))  # finds: np.random.rand
    return [row for row, chance in zip(rows, chances) if chance < 0.9]


def a_test_in_a_loop(lines):
    random.shuffle(lines)  # fine
    kept = []
    for line in lines:
        if random.random() > 0.9:  # finds: random.random
            continue
        kept.append(line.strip())
    return kept


def two_lists_in_a_loop(rows):
    train, held_out = [], []
    for row in rows:
        if random.random() < 0.9:  # finds: random.random
            train.append(row)
        else:
            held_out.append(row)
    return train, held_out


def rows_as_they_come(path, ratio):
    for line in open(path):
        if np.random.rand() < 1 - ratio:  # finds: np.random.rand
            yield line


def a_mask_by_name(frame):
    mask = np.random.rand(len(frame)) < 0.8  # finds: np.random.rand
    return frame[mask], frame[~mask]


def a_word_for_each_row(frame):
    part = np.random.choice(["train", "test"], size=len(frame), p=[0.9, 0.1])  # finds: np.random.choice
    return frame[part == "train"]


def by_a_generator_of_its_own(rows):
    rng = np.random.default_rng()
    return rows[rng.random(len(rows)) < 0.5]  # finds: rng.random


def by_a_filter(dataset):
    return dataset.filter(lambda row: random.random() < 0.5)  # finds: random.random


def halves_of_an_order(rows, count):
    order = torch.randperm(len(rows))  # finds: torch.randperm
    return rows[order[:count]], rows[order[count:]]


def halves_of_what_is_shuffled_in_place(files, count):
    random.shuffle(files)  # finds: random.shuffle
    return files[:count], files[count:]


def what_is_picked(dataset, count):
    picked = random.sample(range(len(dataset)), count)  # finds: random.sample
    return Subset(dataset, picked)


def the_rest_of_a_frame(frame):
    train = frame.sample(frac=0.8)  # finds: frame.sample
    return train, frame.drop(train.index)
