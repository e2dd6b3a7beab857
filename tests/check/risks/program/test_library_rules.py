"""Demands on settings: a training library's where the launch sets one of them, the program's own where it sets none."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.check.judge import judge
from unhang.host.machine import Machine
from unhang.program.launch.planned_job import PlannedJob

LIBRARY = (
    "from dataclasses import dataclass\n"
    "@dataclass\nclass Config:\n    batch: int = 8\n    parts: int = 2\n"
    "class Trainer:\n    def __init__(self, args):\n        if args.batch % args.parts != 0:\n"
    "            raise ValueError('no')\n"
)


@pytest.mark.parametrize(("command", "told"), [("", False), ("--parts 4", True), ("--parts 3", True)])
def test_a_rule_of_a_library_is_told_where_the_launch_sets_something_in_it(
    command: str, told: bool, tmp_path: Path
) -> None:
    site = tmp_path / "venv/lib/python3.11/site-packages/trl"
    site.mkdir(parents=True)
    (site / "__init__.py").write_text(LIBRARY)
    (tmp_path / "venv/bin").mkdir()
    (tmp_path / "venv/bin/python").write_text("")
    (tmp_path / "t.py").write_text("from trl import Config, Trainer\nTrainer(Config())\n")
    machine = Machine(environment={"VIRTUAL_ENV": str(tmp_path / "venv"), "PATH": "/none"})
    machine.folder = str(tmp_path)
    checks = [check for check in ALL_INSPECTIONS if check.name == "program"]

    situation, gaps = inspect_node(machine, PlannedJob(("torchrun", "t.py", *command.split())), checks)
    verdict = judge([situation], ["program"], gaps)

    fine = any("args.batch % args.parts" in str(one.what) for one in verdict.checked)
    assert (fine or bool(verdict.findings)) is told
    assert bool(verdict.findings) is (command == "--parts 3")


@pytest.mark.parametrize("change", ["", "config.batch = config.whole // 2\n", "config.batch *= 4\n"])
def test_a_default_that_the_program_changes_is_not_the_value_that_its_rule_meets(change: str, tmp_path: Path) -> None:
    own = LIBRARY.replace("class Trainer:", f"config = Config()\n{change}class Trainer:").replace("8", "-1")
    (tmp_path / "t.py").write_text(f"{own}Trainer(config)\n")
    machine = Machine(environment={"PATH": "/none"})
    machine.folder = str(tmp_path)
    checks = [check for check in ALL_INSPECTIONS if check.name == "program"]

    situation, gaps = inspect_node(machine, PlannedJob(("torchrun", "t.py")), checks)

    assert bool(judge([situation], ["program"], gaps).findings) is not bool(change)
