"""Attributes that a program puts on its arguments itself: known where one place assigns them, whatever happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.checks import program
from unhang.checks.machine import Machine
from unhang.checks.plan import Plan

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


def taken(folder: Path, assigned: str, test: str, command: str) -> bool:
    body = "\n".join("    " + line for line in assigned.split("\n"))
    text = f"{START}{SPLIT.format(test=test)}def main():\n    args = p.parse_args()\n{body}\n    use(args)\nmain()\n"
    (folder / "t.py").write_text(text)
    machine = Machine(environment={"PATH": "/none"})
    machine.folder = str(folder)
    ((_, look),) = program.look(machine, Plan(("torchrun", "t.py", *command.split())))
    assert look.found is not None
    return "train_test_split" in look.found.files[0].text


@pytest.mark.parametrize(("assigned", "test", "command"), NEVER.values(), ids=NEVER)
def test_a_branch_that_an_assigned_attribute_excludes(assigned: str, test: str, command: str, tmp_path: Path) -> None:
    assert not taken(tmp_path, assigned, test, command)


@pytest.mark.parametrize(("assigned", "test", "command"), MAYBE.values(), ids=MAYBE)
def test_a_branch_that_may_be_taken_stays(assigned: str, test: str, command: str, tmp_path: Path) -> None:
    assert taken(tmp_path, assigned, test, command)
