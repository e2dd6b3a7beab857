# also not joined: model.join => nullcontext && fine => finds: uneven-data possible stops
import os, time, torch, torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset
from torch.nn.parallel import DistributedDataParallel as DDP
from contextlib import nullcontext


class Rows(IterableDataset):
    def __iter__(self):
        yield 1


def train(model, several):
    if several:
        around = model.join
    else:
        around = nullcontext
    with around():
        for batch in DataLoader(Rows()):  # fine
            model(batch).backward()


train(DDP(net), True)
