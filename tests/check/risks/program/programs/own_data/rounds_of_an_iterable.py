# fine rounds of a plain loader: in loader() => in DataLoader(rows) && dist.all_reduce(x)\n =>
# fine rounds without the model: model(batch) => print(batch)
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


for batch in loader():  # finds: uneven-data possible stops "number of times"
    model(batch)
dist.all_reduce(x)
