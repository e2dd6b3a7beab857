"""A program for each kind of edit: words of the finding, the program, and what changes in it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """``changes``: each old text, which stands there once, with the new one."""

    words: str
    program: str
    changes: dict[str, str]

    @property
    def repaired(self) -> str:
        """The program as the patch leaves it."""
        text = self.program
        for old, new in self.changes.items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        return text


SEED = Kind(
    "has no seed",
    """\
import datasets


def load(rows):
    parts = datasets.Dataset.from_list(rows).train_test_split(
        test_size=0.1,  # a tenth (of all)
    )
    return parts["train"]


load([])
""",
    {"test_size=0.1,": "test_size=0.1, seed=42,"},
)
GENERATOR = Kind(
    "has no seed",
    """\
import torch.distributed as dist
from torch.utils.data import random_split

dist.init_process_group("gloo")
train, test = random_split(range(10), [8, 2])
""",
    {
        "random_split\n": "random_split\nimport torch\n",
        "[8, 2]": "[8, 2], generator=torch.Generator().manual_seed(42)",
    },
)
SEED_CALL = Kind(
    "has no seed",
    """\
import numpy as np

rows = np.arange(100)
kept = rows[np.random.rand(100) < 0.9]
""",
    {"kept": "np.random.seed(42)\nkept"},
)
LIMIT = Kind(
    "does not inherit",
    """\
from datetime import timedelta

import torch.distributed as dist

dist.init_process_group("nccl", timeout=timedelta(hours=2), device_id=0)
side = dist.new_group([0, 1])
""",
    {"[0, 1]": "[0, 1], timeout=timedelta(seconds=7200)"},
)
LIMIT_OF_DAYS = Kind(
    "is 30 days",
    """\
import datetime as dt

import torch.distributed as dist

dist.init_process_group("gloo", timeout=dt.timedelta(days=30))
""",
    {"days=30": "seconds=7200"},
)
DEVICE = Kind(
    "does not say which card",
    """\
import os

import torch
import torch.distributed as dist


def setup():
    dist.init_process_group("nccl")
    return os.environ["RANK"]


setup()
""",
    {"    dist.init": '    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\n    dist.init'},
)
BRANCH = Kind(
    "only some ranks reach",
    """\
import torch.distributed as dist

rank = dist.get_rank()
for step in range(3):
    if rank == 0:
        print(step)

        # the others wait
        dist.barrier()
    print("next")
""",
    {"        # the others wait\n        dist.barrier()": "    # the others wait\n    dist.barrier()"},
)
BRANCH_WHOLE = Kind(
    "only some ranks reach",
    """\
import torch.distributed as dist

if dist.get_rank() == 0:
    # all are here
    dist.barrier()
""",
    {"if dist.get_rank() == 0:\n    # all are here\n    dist": "# all are here\ndist"},
)
BRANCH_FIRST = Kind(
    "only some ranks reach",
    """\
import torch.distributed as dist

if dist.get_rank() == 0:
    dist.barrier()
    print("saved")
""",
    {"if dist.get_rank() == 0:\n    dist.barrier()": "dist.barrier()\nif dist.get_rank() == 0:"},
)
LOADER = Kind(
    "waits forever for a worker",
    """\
from torch.utils.data import DataLoader

loader = DataLoader(list(range(8)), num_workers=2)
""",
    {"num_workers=2": "num_workers=2, timeout=300"},
)
EPOCH = Kind(
    "set_epoch",
    """\
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def main(data, step):
    train_sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=train_sampler)
    for epoch in range(3):
        # one pass
        for batch in loader:
            step(batch)


main([], print)
""",
    {"        for batch": "        train_sampler.set_epoch(epoch)\n        for batch"},
)
