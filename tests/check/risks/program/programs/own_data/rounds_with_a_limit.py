import os, time, torch, torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset
from torch.distributed.fsdp import fully_shard


class Packed(IterableDataset):
    def __iter__(self):
        yield from rows()


model = Net()
fully_shard(model)


def loader():
    return DataLoader(Packed())


for at, batch in enumerate(loader()):  # fine
    if at == 9:
        break
    model(batch)
