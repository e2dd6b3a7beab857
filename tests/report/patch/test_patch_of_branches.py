"""Collectives that cannot just leave the branch they are in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.patch.patching import TRAIN, look, of_check, summaries

pytestmark = pytest.mark.usefixtures("in_its_folder")

BARRIERS = {
    "in_the_middle": "if rank == 0:\n    print(1)\n    dist.barrier()\n    print(2)\n",
    "of_what_is_made_there": "if rank == 0:\n    loss = make()\n    dist.all_reduce(loss)\n",
    "at_times": "if rank == 0 and make():\n    print(1)\n    dist.barrier()\n",
    "with_another_arm": "if rank == 0:\n    dist.barrier()\nelse:\n    print(1)\n",
    "several_functions_down": "def together():\n    dist.barrier()\n\n\nif rank == 0:\n    together()\n",
    "left_before": "def f():\n    if rank == 0:\n        if make():\n            return\n        dist.barrier()\nf()\n",
}


@pytest.mark.parametrize("kind", BARRIERS)
def test_a_collective_that_cannot_just_leave_its_branch_stays(kind: str, tmp_path: Path) -> None:
    head = "import torch.distributed as dist\n\n\ndef make():\n    return object()\n\n\nrank = dist.get_rank()\n"
    (tmp_path / "train.py").write_text(head + BARRIERS[kind])

    verdict, here = look(TRAIN)
    patch = of_check(verdict, here)

    assert any("reach" in summary for summary in summaries(verdict))
    assert patch.edits == 0
    assert "@@" not in patch.text
