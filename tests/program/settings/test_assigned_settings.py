"""Attributes that a program puts on its arguments itself: known where one place assigns them, whatever happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.host.machine import Machine
from unhang.program import collect_program
from unhang.program.launch.planned_job import Plan

START = (
    "import argparse, os\np = argparse.ArgumentParser()\np.add_argument('--report-to', default='')\n"
    "p.add_argument('--size', type=int, default=1)\n"
)
SPLIT = "def use(args):\n    if {test}:\n        data.train_test_split(0.1)\n"
NEVER = {
    "of an option": ("args.wandb = 'wandb' in args.report_to or 'all' in args.report_to", "args.wandb", ""),
    "of another such": ("args.wandb = 'w' in args.report_to\nargs.log = args.wandb", "args.log", ""),
    "compared": ("args.distributed = args.size > 1", "args.distributed", "--size 1"),
    "and": ("args.save = bool(args.report_to) and os.path.exists('x')", "args.save", ""),
    "a condition of two": ("args.kind = 'ddp' if args.size > 1 else 'none'", "args.kind == 'ddp'", ""),
}
MAYBE = {
    "the command says otherwise": ("args.wandb = 'wandb' in args.report_to", "args.wandb", "--report-to wandb"),
    "assigned twice": ("args.wandb = False\nargs.wandb = call()", "args.wandb", ""),
    "in a branch": ("if call():\n    args.wandb = False\nelse:\n    args.wandb = True", "args.wandb", ""),
    "in a loop": ("for one in call():\n    args.wandb = False", "args.wandb", ""),
    "by a name": ("args.wandb = False\nsetattr(args, 'wandb', call())", "args.wandb", ""),
    "by a name that only running tells": (
        "args.wandb = False\nfor k, v in call().items():\n    setattr(args, k, v)",
        "args.wandb",
        "",
    ),
    "unpacked": ("args.wandb, x = call()", "args.wandb", ""),
    "computed": ("args.wandb = call()", "args.wandb", ""),
    "on an alias": ("args.wandb = False\nother = args\nother.wandb = call()", "args.wandb", ""),
    "an option of that name": ("args.report_to = ''", "args.report_to", "--report-to x"),
    "counted on": ("args.count = 0\nargs.count += call()", "args.count", ""),
}


WRITER = (
    "def main():\n    args = p.parse_args()\n    writer = None\n    if {test}:\n        writer = SummaryWriter('x')\n"
    "    use(args, writer)\n"
)
USE = "def use(args, writer):\n    if writer is not None:\n        data.train_test_split(0.1)\n"


@pytest.mark.parametrize(
    ("test", "command", "is_taken"),
    [
        ("'tb' in args.report_to", "", False),
        ("'tb' in args.report_to", "--report-to tb", True),
        ("call()", "", True),
        ("args.size > 0", "", True),
    ],
)
def test_a_name_that_only_a_branch_gives_something(test: str, command: str, is_taken: bool, tmp_path: Path) -> None:
    text = f"{START}{USE}{WRITER.format(test=test)}main()\n"

    assert ("train_test_split" in live(tmp_path, text, command)) is is_taken


def test_names_that_stand_for_each_other_in_a_circle_are_not_known(tmp_path: Path) -> None:
    circle = "".join(f"    n{at} = None\n    if n{(at + 1) % 9}:\n        n{at} = n{(at + 1) % 9}\n" for at in range(9))
    split = "    if n0:\n        data.train_test_split(0.1)\n"
    text = f"{START}def main():\n    args = p.parse_args()\n{circle}{split}main()\n"

    assert "train_test_split" in live(tmp_path, text, "")


def live(folder: Path, text: str, command: str) -> str:
    (folder / "t.py").write_text(text)
    machine = Machine(environment={"PATH": "/none"})
    machine.folder = str(folder)
    ((_, look),) = collect_program.look(machine, Plan(("torchrun", "t.py", *command.split())))
    assert look.found is not None
    return look.found.files[0].text


def taken(folder: Path, assigned: str, test: str, command: str) -> bool:
    body = "\n".join("    " + line for line in assigned.split("\n"))
    text = f"{START}{SPLIT.format(test=test)}def main():\n    args = p.parse_args()\n{body}\n    use(args)\nmain()\n"
    return "train_test_split" in live(folder, text, command)


@pytest.mark.parametrize(("assigned", "test", "command"), NEVER.values(), ids=NEVER)
def test_a_branch_that_an_assigned_attribute_excludes(assigned: str, test: str, command: str, tmp_path: Path) -> None:
    assert not taken(tmp_path, assigned, test, command)


@pytest.mark.parametrize(("assigned", "test", "command"), MAYBE.values(), ids=MAYBE)
def test_a_branch_that_may_be_taken_stays(assigned: str, test: str, command: str, tmp_path: Path) -> None:
    assert taken(tmp_path, assigned, test, command)
