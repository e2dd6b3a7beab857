"""``WORLD_SIZE`` beside a command that starts one process, and where that is well."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.check.judge import judge
from unhang.host.machine import Machine
from unhang.program.launch.planned_job import PlannedJob

CHECKS = [check for check in ALL_INSPECTIONS if check.name in ("environment", "program")]
INIT = "import os\nimport torch.distributed as dist\ndist.init_process_group('gloo')\n"
ALONE = "import os\nif 'RANK' not in os.environ:\n    os.environ['RANK'] = '0'\n"
KEEPS = f"{ALONE}if 'WORLD_SIZE' not in os.environ:\n    os.environ['WORLD_SIZE'] = '1'\n{INIT}"
SETS = f"{ALONE}os.environ['WORLD_SIZE'] = '1'\n{INIT}"
ASKS = f"import os\nif 'RANK' in os.environ and 'WORLD_SIZE' in os.environ:\n    pass\n{INIT}"


@pytest.mark.parametrize(
    ("command", "variables", "text", "found"),
    [
        ("python train.py", {"WORLD_SIZE": "4"}, KEEPS, True),
        ("python train.py", {"WORLD_SIZE": "1"}, KEEPS, False),
        ("python train.py", {"WORLD_SIZE": "4", "RANK": "0"}, KEEPS, False),
        ("python train.py", {}, KEEPS, False),
        ("python train.py", {"WORLD_SIZE": "4"}, SETS, False),
        ("python train.py", {"WORLD_SIZE": "4"}, ASKS, False),  # it runs alone
        ("python train.py", {"WORLD_SIZE": "4"}, INIT, False),  # it ends with an error that names RANK
        ("torchrun --nproc_per_node 4 train.py", {"WORLD_SIZE": "4"}, KEEPS, False),
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
