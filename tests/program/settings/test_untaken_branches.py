"""Which branches a launch takes: defaults, configuration files and the command, and what stays unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.host.machine import Machine
from unhang.program import collect_program
from unhang.program.launch.planned_job import Plan
from unhang.program.program_source import ProgramSource

SPLIT = "        data.train_test_split(0.1)\n"
ARGPARSE = (
    "import argparse\np = argparse.ArgumentParser()\np.add_argument('--val-split', type=float, default=0.0)\n"
    "p.add_argument('--name', default=None)\np.add_argument('--flag', action='store_true')\n"
    "p.add_argument('--mode', default='train', choices=['train', 'eval'])\nargs = p.parse_args()\n"
)
DATACLASS = (
    "from dataclasses import dataclass, field\nfrom typing import Optional\n"
    "@dataclass\nclass Extra:\n    deep: bool = False\n"
    "@dataclass\nclass Args:\n    val_split: float = field(default=0.0)\n    name: Optional[str] = None\n"
    "    flag: bool = False\n"
    "    mode: str = 'train'\n    names: list = field(default_factory=lambda: ['a'])\n"
    "    extra: Extra = field(default_factory=Extra)\n"
)
HF = (
    DATACLASS
    + "from transformers import HfArgumentParser\nargs, = HfArgumentParser((Args,)).parse_args_into_dataclasses()\n"
)
TYRO = DATACLASS + "import tyro\nargs = tyro.cli(Args)\n"
CLICK = (
    "import click\n@click.command()\n@click.option('--val-split', type=float, default=0.0)\n"
    "def main(val_split):\n    if {test}:\n" + SPLIT
)
FIRE = "import fire\ndef main(val_split=0.0):\n    if {test}:\n" + SPLIT + "fire.Fire(main)\n"


def read(folder: Path, text: str, command: str = "", **files: str) -> ProgramSource:
    (folder / "t.py").write_text(text)
    for name, told in files.items():
        (folder / name.replace("_", ".")).write_text(told)
    ((_, look),) = collect_program.look(
        Machine(environment={"PATH": "/none"}), Plan(("torchrun", "t.py", *command.split()))
    )
    assert look.found is not None
    return look.found


def taken(source: ProgramSource) -> bool:
    """The branch with the split is still there; every line stands where it stood."""
    live = next(file.text for file in source.files if file.path == "t.py")
    whole = next(file.text for file in source.whole if file.path == "t.py")
    assert live.count("\n") == whole.count("\n")
    return "train_test_split" in live


def branch(test: str) -> str:
    return f"def main():\n    if {test}:\n{SPLIT}"


pytestmark = pytest.mark.usefixtures("in_its_folder")


@pytest.mark.parametrize("parser", [ARGPARSE, HF, TYRO])
@pytest.mark.parametrize(
    ("test", "command", "expected"),
    [
        ("args.val_split > 0", "", False),
        ("args.val_split > 0", "--val_split 0.1", True),
        ("args.val_split > 0", "--val_split=0", False),
        ("args.name is None", "", True),
        ("args.name is not None", "", False),
        ("args.name is not None", "--name x", True),
        ("args.flag", "", False),
        ("args.flag", "--flag", True),
        ("not args.flag", "", True),
        ("args.flag and other()", "", False),
        ("args.flag or other()", "", True),
        ("not (args.flag or other())", "", True),
        ("args.mode == 'eval'", "", False),
        ("args.mode in ('eval', 'both')", "", False),
        ("args.mode in ('eval', 'both')", "--mode eval", True),
        ("args.mode.startswith('ev')", "", False),
        ("getattr(args, 'flag', False)", "", False),
        ("other.flag", "", True),
        ("args.unknown", "", True),
        ("args.val_split > 0", "--val_split $RATIO", True),
        ("args.val_split > 0", "--val 0.5", True),
    ],
)
def test_branches_by_settings(parser: str, test: str, command: str, expected: bool, tmp_path: Path) -> None:
    assert taken(read(tmp_path, parser + branch(test), command)) is expected


@pytest.mark.parametrize("text", [CLICK, FIRE])
@pytest.mark.parametrize(("command", "expected"), [("", False), ("--val_split 0.2", True)])
def test_parameters_of_commands(text: str, command: str, expected: bool, tmp_path: Path) -> None:
    assert taken(read(tmp_path, text.replace("{test}", "val_split > 0"), command)) is expected


@pytest.mark.parametrize(
    ("text", "command", "expected"),
    [
        (TYRO + branch("args.extra.deep"), "", False),
        (TYRO + branch("args.extra.deep"), "--extra.deep", True),
        (TYRO + "extra = args.extra\n" + branch("extra.deep"), "", False),
        (DATACLASS + "def main(cfg: Args):\n    if cfg.flag:\n" + SPLIT, "", False),
        (DATACLASS + "def main(cfg: 'Optional[Args]'):\n    if cfg.flag:\n" + SPLIT, "", False),
        (DATACLASS + "cfg = Args(flag=ask())\n" + branch("cfg.flag"), "", True),
        (DATACLASS + "cfg = Args(**told)\n" + branch("cfg.flag"), "", True),
        (DATACLASS + "cfg = Args.read('x')\n" + branch("cfg.flag"), "", True),
        (DATACLASS + "cfg = Args()\ncfg.flag = ask()\n" + branch("cfg.flag"), "", True),
        (ARGPARSE + "args.flag = True\n" + branch("args.flag"), "", True),
        (ARGPARSE + "for k, v in told().items():\n    setattr(args, k, v)\n" + branch("args.flag"), "", True),
        (
            ARGPARSE
            + "for k, v in told().items():\n    if getattr(args, k) is None:\n        setattr(args, k, v)\n"
            + branch("args.flag"),
            "",
            False,
        ),
        (
            ARGPARSE
            + "def told():\n    return {'flag': 1}\nmore = told()\nfor k, v in more.items():\n    setattr(args, k, v)\n"
            + branch("args.flag"),
            "",
            True,
        ),
        (ARGPARSE.replace("args =", "def parse():\n    return") + "args = parse()\n" + branch("args.flag"), "", False),
        (ARGPARSE + "def main(args):\n    if args.flag:\n" + SPLIT, "", False),
        (ARGPARSE + "def main(args: Other):\n    if args.flag:\n" + SPLIT, "", True),
        (
            ARGPARSE
            + "class T:\n  def __init__(self, args):\n    self.args = args\n  def f(self):\n    if self.args.flag:\n"
            + SPLIT,
            "",
            False,
        ),
        (ARGPARSE + "def main():\n    if not args.flag:\n        return\n    if True:\n" + SPLIT, "", False),
        (ARGPARSE + "def main():\n    if args.flag: data.train_test_split(0.1)\n", "", False),
        (ARGPARSE + "def main():\n    if args.mode == 'train':\n        pass\n    elif x:\n" + SPLIT, "", False),
        (ARGPARSE + "def main():\n    a = b\n    b = a\n    if a.flag:\n" + SPLIT, "", True),
    ],
)
def test_names_that_hold_the_configuration(text: str, command: str, expected: bool, tmp_path: Path) -> None:
    assert taken(read(tmp_path, text, command)) is expected


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("val_split: 0.1", True),
        ("val_split: 0.0", False),
        ("data:\n  val_split: 0.1", True),
        ("other: 1", False),
        ("a: [", True),
    ],
)
def test_configuration_files_override_defaults(told: str, expected: bool, tmp_path: Path) -> None:
    source = read(tmp_path, HF + branch("args.val_split > 0"), "c.yaml", c_yaml=told)

    assert taken(source) is expected


def test_the_command_overrides_configuration_files(tmp_path: Path) -> None:
    source = read(tmp_path, HF + branch("args.val_split > 0"), "c.yaml --val_split 0", c_yaml="val_split: 0.1")

    assert not taken(source)
    assert source.left_out[0].settings == (("val_split", "0.0", "command"),)


def test_where_a_value_comes_from_is_told(tmp_path: Path) -> None:
    (left,) = read(tmp_path, ARGPARSE + branch("args.val_split > 0")).left_out

    assert (left.path, left.line, left.truth) == ("t.py", 9, False)
    assert left.settings == (("val_split", "0.0", "t.py:3"),)


def test_an_argument_that_no_parser_knows(tmp_path: Path) -> None:
    text = ARGPARSE + "p.add_argument('--profiling.enable', action='store_true')\n"

    assert read(tmp_path, text, "--flag --metrics.enable").not_understood == ("--metrics.enable (--profiling.enable?)",)
    assert read(tmp_path, text, "--flag --profiling.enable").not_understood == ()
