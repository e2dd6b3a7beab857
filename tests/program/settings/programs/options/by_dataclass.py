# also by tyro: from transformers import HfArgumentParser => import tyro && (args,) = HfArgumentParser((Args,)).parse_args_into_dataclasses() => args = tyro.cli(Args)
# launch: torchrun by_dataclass.py
# launch: torchrun by_dataclass.py --val_split 0.1
# launch: torchrun by_dataclass.py --val_split=0
# launch: torchrun by_dataclass.py --name x
# launch: torchrun by_dataclass.py --flag
# launch: torchrun by_dataclass.py --mode eval
# launch: torchrun by_dataclass.py --val_split $RATIO
# launch: torchrun by_dataclass.py --val 0.5
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


def of_a_number():
    if args.val_split > 0:
        data.train_test_split(0.1)  # finds: left out unless --val_split 0.1 or --val_split $RATIO or --val 0.5


def where_there_is_none():
    if args.name is None:
        data.train_test_split(0.1)  # finds: left out if --name x


def where_there_is_one():
    if args.name is not None:
        data.train_test_split(0.1)  # finds: left out unless --name x


def by_a_flag():
    if args.flag:
        data.train_test_split(0.1)  # finds: left out unless --flag


def by_no_flag():
    if not args.flag:
        data.train_test_split(0.1)  # finds: left out if --flag


def by_a_flag_and_an_answer():
    if args.flag and other():
        data.train_test_split(0.1)  # finds: left out unless --flag


def by_a_flag_or_an_answer():
    if args.flag or other():
        data.train_test_split(0.1)  # fine


def by_neither_flag_nor_answer():
    if not (args.flag or other()):
        data.train_test_split(0.1)  # finds: left out if --flag


def by_a_choice():
    if args.mode == "eval":
        data.train_test_split(0.1)  # finds: left out unless --mode eval


def by_one_of_choices():
    if args.mode in ("eval", "both"):
        data.train_test_split(0.1)  # finds: left out unless --mode eval


def by_the_start_of_a_choice():
    if args.mode.startswith("ev"):
        data.train_test_split(0.1)  # finds: left out unless --mode eval


def by_getattr():
    if getattr(args, "flag", False):
        data.train_test_split(0.1)  # finds: left out unless --flag


def of_another_object():
    if other.flag:
        data.train_test_split(0.1)  # fine


def of_an_unknown_option():
    if args.unknown:
        data.train_test_split(0.1)  # fine
