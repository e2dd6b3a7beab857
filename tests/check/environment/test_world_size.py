"""``WORLD_SIZE`` beside a command that starts one process, and where that is well."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.check.judge import judge
from unhang.host.machine import Machine
from unhang.program.launch.planned_job import PlannedJob

CHECKS = [check for check in ALL_INSPECTIONS if check.name in ("environment", "program")]
ALONE = "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
SPAWNS = f"import torch.multiprocessing as mp\n{ALONE}mp.spawn(run, nprocs=4)\n"


@pytest.mark.parametrize(
    ("command", "variables", "text", "found"),
    [
        ("python train.py", {"WORLD_SIZE": "4"}, ALONE, True),
        ("python train.py", {"WORLD_SIZE": "1"}, ALONE, False),
        ("python train.py", {"WORLD_SIZE": "4", "RANK": "0"}, ALONE, False),
        ("python train.py", {}, ALONE, False),
        ("python train.py", {"WORLD_SIZE": "4"}, SPAWNS, False),
        ("python train.py", {"WORLD_SIZE": "4"}, "print(1)\n", False),
        ("torchrun --nproc_per_node 4 train.py", {"WORLD_SIZE": "4"}, ALONE, False),
    ],
)
def test_ranks_that_nobody_starts_are_named(
    command: str, variables: dict[str, str], text: str, found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(text)
    machine = Machine(environment={"PATH": "/none", **variables})
    situation, gaps = inspect_node(machine, PlannedJob(tuple(command.split())), CHECKS)

    verdict = judge([situation], ["environment"], gaps)

    assert ("WORLD_SIZE" in [one.subject for one in verdict.findings]) is found
