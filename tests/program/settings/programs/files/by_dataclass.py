# launch: torchrun by_dataclass.py ratio.yaml
# launch: torchrun by_dataclass.py none.yaml
# launch: torchrun by_dataclass.py nested.yaml
# launch: torchrun by_dataclass.py other.yaml
# launch: torchrun by_dataclass.py broken.yaml
# launch: torchrun by_dataclass.py ratio.yaml --val_split 0
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


from transformers import HfArgumentParser

(args,) = HfArgumentParser((Args,)).parse_args_into_dataclasses()


def main():
    if args.val_split > 0:
        data.train_test_split(0.1)  # finds: left out if none.yaml or other.yaml or ratio.yaml --val_split 0
