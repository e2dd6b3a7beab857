"""A call that Gloo counts as finished because it failed is the one its rank waited in."""

from __future__ import annotations

import io
from typing import Any

import pytest

from tests.facts.jobs import call, job, recording
from unhang.evidence.logs import read_log
from unhang.facts.build import build_facts
from unhang.facts.model import Facts

FAILED = """\
Traceback (most recent call last):
  File "/job/train.py", line 45, in main
    dist.{function}()
  File "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 5356, in {function}
    work.wait()
RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 4000ms for recv operation to complete
"""


def bare(position: int, operation: str = "all_reduce") -> dict[str, Any]:
    """As a dump without frames has it."""
    return {**call(position, operation, backend="gloo"), "frames": []}


def facts_where(function: str) -> Facts:
    """Rank 1's last recorded call is a barrier that rank 0 never came to; rank 1's log ends in ``function``."""
    groups = {"0": (0, 1)}
    evidence = job(
        recording(0, [bare(1), bare(2)], groups=groups),
        recording(1, [bare(1), bare(2), bare(3, "barrier")], groups=groups),
    )
    text = FAILED.format(function=function).encode()
    evidence.logs.append(read_log(io.BytesIO(text), source="logs/attempt_0/1/stderr.log", rank=1))
    return build_facts(evidence)


def test_a_dump_without_frames_is_placed_by_the_call_that_failed() -> None:
    pending = facts_where("barrier").groups["0"].progress[1].pending

    assert pending is not None
    assert pending.operation == "barrier"
    assert pending.where is not None
    assert pending.where.line == 45


@pytest.mark.parametrize("function", ["all_reduce", "broadcast"])
def test_another_call_that_failed_says_nothing_of_the_recorded_one(function: str) -> None:
    assert facts_where(function).groups["0"].progress[1].pending is None
