import random, torch
import torch.distributed as dist


def main(data):
    torch.manual_seed(dist.get_rank())
    return torch.utils.data.random_split(data, [8, 2])  # finds: uneven-data likely stops


main(rows)
