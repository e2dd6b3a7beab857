# fine kept iterable with a limit: dist.all_reduce(batch) => if step > 9:\n                break\n            dist.all_reduce(batch)
# fine kept rows: (IterableDataset) => (Dataset)
import os, time, torch, torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset


class Rows(IterableDataset):
    def __iter__(self):
        yield 1


class Loader(DataLoader):
    pass


def build():
    rows = Rows()
    return Loader(rows, batch_size=2)


class Trainer:
    def __init__(self):
        self.rows = build()

    def run(self):
        for batch in self.rows:  # finds: uneven-data possible stops
            dist.all_reduce(batch)


Trainer().run()
