# fine seeded by a function: dist.get_rank() => 3
# also seeded by nobody:     seed() =>     pass
# also seeded with the rank: seed(): => main(data): && \n\ndef main(data):\n    seed()\n =>
import random, torch
import torch.distributed as dist


def seed():
    torch.manual_seed(dist.get_rank())


def main(data):
    seed()
    return torch.utils.data.random_split(data, [8, 2])  # finds: uneven-data likely stops


main(rows)
