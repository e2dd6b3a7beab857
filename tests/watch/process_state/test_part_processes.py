"""Which processes beside the ranks are parts of their job."""

from __future__ import annotations

import pytest

from unhang.watch.process_state.part_processes import parts_beside
from unhang.watch.process_state.proc_processes import Process, ProcessTable

NOBODY = 4_000_000
"""No process has such a number: nothing of this machine is read for it."""


def process(number: int, parent: int, title: str, program: str = "/usr/bin/python3.11", uid: int = 7) -> Process:
    return Process(NOBODY + number, NOBODY + parent, "S", number, uid, (title,), {}, program)


TABLE = ProcessTable(
    {
        one.pid: one
        for one in (
            process(10, 1, "raylet", "/site/ray/core/src/ray/raylet/raylet"),
            process(11, 10, "ray::PolicyModelActor"),
            process(12, 10, "ray::RewardModelActor.forward"),
            process(13, 10, "ray::IDLE"),
            process(20, 1, "raylet", "/site/ray/core/src/ray/raylet/raylet"),
            process(21, 20, "ray::RewardModelActor.forward"),
            process(30, 1, "VLLM::EngineCore"),
            process(31, 1, "VLLM::EngineCore", uid=8),
            process(32, 1, "python serve.py"),
            process(40, 1, "python train.py"),
        )
    }
)


@pytest.mark.parametrize(
    ("rank", "parts"),
    [
        (11, [12, 30]),  # what does nothing, another Ray's and another user's are none
        (40, [30]),  # a job without Ray has no part in any
    ],
)
def test_parts_are_of_the_ranks_own_ray_and_user(rank: int, parts: list[int]) -> None:
    found = parts_beside(TABLE, [TABLE.processes[NOBODY + rank]])

    assert [one.pid - NOBODY for one in found] == parts
