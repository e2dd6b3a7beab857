import random, torch
import torch.distributed as dist


def seed():
    torch.manual_seed(dist.get_rank())


def main(data):
    seed()
    return torch.utils.data.random_split(data, [8, 2])  # finds: uneven-data likely stops


main(rows)
