import os, time, torch, torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset
from torch.distributed.fsdp import fully_shard


class Rows(IterableDataset):
    def __iter__(self):
        yield 1


class Spec:
    wrap = fully_shard


fully_shard(build())


def validate(model_parts):
    for batch in DataLoader(Rows()):  # finds: uneven-data possible stops
        loss = model_parts[0](batch)


validate(Spec().models)
