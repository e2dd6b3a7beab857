from dataclasses import dataclass, field
from typing import Optional


@dataclass
class Extra:
    deep: bool = False


@dataclass
class Args:
    val_split: float = field(default=0.0)
    name: Optional[str] = None
    flag: bool = False
    mode: str = "train"
    names: list = field(default_factory=lambda: ["a"])
    extra: Extra = field(default_factory=Extra)


import tyro

args = tyro.cli(Args)
extra = args.extra


def main():
    if extra.deep:
        data.train_test_split(0.1)  # finds: left out
