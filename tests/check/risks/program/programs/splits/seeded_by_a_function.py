import random, torch
import torch.distributed as dist


def seed():
    torch.manual_seed(3)


def main(data):
    seed()
    return torch.utils.data.random_split(data, [8, 2])  # fine


main(rows)
