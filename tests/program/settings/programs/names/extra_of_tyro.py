# launch: torchrun extra_of_tyro.py
# launch: torchrun extra_of_tyro.py --extra.deep
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


def main():
    if args.extra.deep:
        data.train_test_split(0.1)  # finds: left out unless --extra.deep
