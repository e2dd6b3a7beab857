import os, time, torch, torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset
from torch.distributed.fsdp import register_fsdp_forward_method


class Rows(IterableDataset):
    def __iter__(self):
        yield 1


class Spec:
    wrap = register_fsdp_forward_method


register_fsdp_forward_method(build())


def validate(model_parts):
    for batch in DataLoader(Rows()):  # fine
        loss = model_parts[0](batch)


validate(Spec().models)
