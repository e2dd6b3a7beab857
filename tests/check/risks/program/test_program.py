"""A program that was not read whole is not called well; and what the arguments of a loader tell.

What is found in whole programs stands in ``programs/``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.check.judge import judge
from unhang.findings import Status, Verdict
from unhang.host.machine import Machine
from unhang.program.launch.planned_job import PlannedJob

CHECK = [check for check in ALL_INSPECTIONS if check.name == "program"]


def ask(folder: Path, program: str, command: str = "torchrun t.py") -> Verdict:
    (folder / "t.py").write_text(program)
    situation, gaps = inspect_node(Machine(), PlannedJob(tuple(command.split())), CHECK)
    return judge([situation], ["program"], gaps)


pytestmark = pytest.mark.usefixtures("in_its_folder")


@pytest.mark.parametrize("program", ["def broken(:\n", ""])
def test_nothing_is_found_where_nothing_is(program: str, tmp_path: Path) -> None:
    assert ask(tmp_path, program).findings == ()


def test_a_program_that_is_not_there_could_not_be_looked_at(tmp_path: Path) -> None:
    verdict = ask(tmp_path, "", "torchrun other.py")

    assert [gap.check for gap in verdict.not_checked] == ["program"]
    assert verdict.status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("", "no command was given"),
        ("bash run.sh", "did not find the script"),
        ("torchrun t.py", "my_models"),
    ],
)
def test_a_program_that_was_not_read_whole_is_not_well(command: str, says: str, tmp_path: Path) -> None:
    verdict = ask(tmp_path, "import os, torch, my_models.vit\n", command)

    assert verdict.status is Status.UNKNOWN
    assert any(says in str(gap.because) for gap in verdict.not_checked)


def test_a_program_whose_own_files_were_all_read_is_well(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/__init__.py").write_text("from . import vit\nfrom .vit import Vit\nimport numpy as np\n")
    (tmp_path / "models/vit.py").write_text("import torch.nn as nn\n")

    verdict = ask(tmp_path, "import os\nfrom models import Vit\n")

    assert verdict.status is Status.HEALTHY
    assert any("(files: 3)" in str(fine.what) for fine in verdict.checked)


@pytest.mark.parametrize(
    ("program", "wrong"),
    [
        ("DataLoader(d, num_workers=1)\n", ["waits forever"]),
        ("DataLoader(d, num_workers=1, timeout=300)\n", []),
        ("DataLoader(d)\n", []),
        ("DataLoader(d, persistent_workers=True)\n", ["raises"]),
        ("DataLoader(d, num_workers=n, timeout=t)\n", []),
        ("DataLoader(d, num_workers=4096, timeout=9)\n", ["processes on"]),
        ("wds.WebDataset(urls)\n", ["whole shards"]),
        ("wds.WebDataset(urls, resampled=True)\n", []),
        ("wds.WebDataset(urls).with_epoch(100)\n", []),
        ("wds.DataPipeline(shards, wds.split_by_node)\n", ["whole shards"]),
        ("wds.DataPipeline(shards, wds.split_by_node).with_epoch(9)\n", []),
        ("Pipe.DataPipeline(shards)\n", []),
    ],
)
def test_loaders(program: str, wrong: list[str], tmp_path: Path) -> None:
    said = [str(f.summary) for f in ask(tmp_path, program, "torchrun --nproc-per-node 2 t.py").findings]

    assert len(said) == len(wrong), said
    assert all(words in text for words, text in zip(wrong, said, strict=True))


@pytest.mark.parametrize(
    ("program", "names"),
    [
        ("def broken(:\n", "t.py"),
        ("import part\n", "part.py"),
        ("import importlib, sys\nimportlib.import_module(sys.argv[1])\n", "t.py:2"),
        ("import runpy\nrunpy.run_path('hidden.py')\n", "t.py:2"),
        ("exec(open('hidden.py').read())\n", "t.py:1"),
        ("import importlib\nimportlib.import_module('nowhere.at_all')\n", "nowhere.at_all"),
    ],
)
def test_a_program_of_which_a_part_cannot_be_read_is_not_called_well(program: str, names: str, tmp_path: Path) -> None:
    (tmp_path / "part.py").write_bytes(b"\xff\xfe\x00import torch\n")

    verdict = ask(tmp_path, program)

    assert verdict.status is Status.UNKNOWN
    assert names in " ".join(f"{gap.what} {gap.because}" for gap in verdict.not_checked)
