# also annotated by name: : Args => : "Optional[Args]"
# fine changed: def main(cfg: Args): => cfg = Args()\ncfg.flag = ask()\n\n\ndef main():
# fine made by a method: def main(cfg: Args): => cfg = Args.read("x")\n\n\ndef main():
# fine made of what was told: def main(cfg: Args): => cfg = Args(**told)\n\n\ndef main():
# fine made with an answer: def main(cfg: Args): => cfg = Args(flag=ask())\n\n\ndef main():
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


def main(cfg: Args):
    if cfg.flag:
        data.train_test_split(0.1)  # finds: left out
