"""How loud a verdict is while ranks are still on their way to init_process_group."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from unhang.watch.collecting import Order, Taken
from unhang.watch.run_folder import RunFolder
from unhang.watch.summary import Level, Summary
from unhang.watch.verdicts import conclude

IN_INIT = """\
Process {pid}: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread {pid} (idle): "MainThread"
    _store_based_barrier (/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:1060)
    init_process_group (/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:1759)
    main (/job/train.py:9)
"""


def concluded(path: Path, *, waited_s: float) -> Summary:
    """Ranks 0 and 1 of three stand in init_process_group; of rank 2 there is nothing."""
    folder = RunFolder.create(path).path
    for rank in (0, 1):
        for name in (f"rank_{rank}.1.txt", f"rank_{rank}.txt"):
            (folder / "stacks").mkdir(exist_ok=True)
            (folder / "stacks" / name).write_text(IN_INIT.format(pid=100 + rank))
    order = Order(1, path, {}, world_size=3, job_outputs={}, stalled_since_s=time.time() - waited_s)
    processes = [{"rank": rank, "pid": 100 + rank, "state": "S", "moving": False} for rank in (0, 1)]
    manifest = {"schema": "unhang.bundle/1", "world_size": 3, "live": True, "processes": processes}
    (folder / "bundle.json").write_text(json.dumps(manifest))
    return conclude(order, Taken(taken_s=time.time()), folder, waited_s=waited_s, width=80)[0]


@pytest.mark.parametrize(("waited_s", "level"), [(8.0, Level.WAITING), (31.0, Level.STALL)])
def test_a_rank_that_was_not_seen_may_be_starting(waited_s: float, level: Level, tmp_path: Path) -> None:
    said = concluded(tmp_path / "run", waited_s=waited_s)

    assert (said.cause, said.ranks, said.level) == ("rendezvous", (2,), level.value)


def test_nobody_ends_a_job_because_a_rank_is_late_to_start(tmp_path: Path) -> None:
    assert concluded(tmp_path / "run", waited_s=31.0).moving
