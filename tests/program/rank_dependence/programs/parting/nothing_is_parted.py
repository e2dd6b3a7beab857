"""The same calls where they decide no part of the data, or are to differ from sample to sample."""

import random

import numpy as np
import torch


def an_order(rows):
    order = np.random.permutation(len(rows))  # fine
    return [rows[at] for at in order]


def the_first_rows_of_an_order(rows):
    return rows[torch.randperm(len(rows))[:16]]  # fine


def noise(values):
    values = values + torch.rand(len(values))  # fine
    return values[values > 0]


def a_filter_beside_a_draw(rows):
    weights = np.random.rand(len(rows))  # fine
    return [row for row, weight in zip(rows, weights) if row > 3], weights


def a_label_for_each_pair(pairs):
    examples = []
    for first, second in pairs:
        if random.random() < 0.5:  # fine
            examples.append((first, second, 1))
        else:
            examples.append((first, pairs[0], 0))
    return examples


def what_a_loop_does_now_and_then(batches, model):
    losses = []
    for batch in batches:
        if random.random() < 0.01:  # fine
            print(batch)
        losses.append(model(batch))
    return losses


class Rows:
    def __getitem__(self, at):
        words = self.rows[at]
        return [word for word in words if random.random() > 0.1]  # fine

    def forward(self, values, count):
        order = torch.randperm(len(values))  # fine
        return values[order[:count]], values[order[count:]]


def on_the_card(values, count):
    order = torch.randperm(len(values), device=values.device)  # fine
    return values[order[:count]], values[order[count:]]
