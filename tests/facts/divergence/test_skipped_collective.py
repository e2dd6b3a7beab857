"""A circle over two groups: whether one side has gone around the other's call."""

from __future__ import annotations

import textwrap

import pytest

from tests.facts.jobs import call, job, recording
from unhang.evidence.items import SourceFile
from unhang.facts.build import build_facts
from unhang.facts.divergence.skipped_calls import SkippedCollective, skipped_collective
from unhang.findings import Source

GROUPS = {"0": (0, 1), "1": (0, 1)}


def found(body: str) -> SkippedCollective | None:
    """Rank 0 waits at the mark ``# PAIR`` in group 1, rank 1 at ``# ALL`` in group 0."""
    program = "def train():\n" + textwrap.indent(textwrap.dedent(body).lstrip("\n"), "    ")
    lines = program.splitlines()
    pair, everyone = (next(n for n, row in enumerate(lines, 1) if mark in row) for mark in ("# PAIR", "# ALL"))
    dumps = [
        recording(0, [call(1, group="1", state="scheduled", line=pair)], groups=GROUPS),
        recording(1, [call(1, group="0", state="scheduled", line=everyone)], groups=GROUPS),
    ]
    evidence = job(*dumps)
    evidence.sources.append(SourceFile(Source("train.py"), "/job/train.py", program))
    facts = build_facts(evidence)
    (cycle,) = facts.graph.cycles
    return skipped_collective(facts, cycle)


GUARDED = """
for step in range(10):
    if mask.any():
        dist.all_reduce(y, group=pair)  # PAIR
    dist.all_reduce(x)  # ALL
"""
PLAIN = """
dist.all_reduce(y, group=pair)  # PAIR
dist.all_reduce(x)  # ALL
"""
ARMS = """
if first:
    dist.all_reduce(y, group=pair)  # PAIR
    dist.all_reduce(x)
else:
    dist.all_reduce(x)  # ALL
    dist.all_reduce(y, group=pair)
"""


@pytest.mark.parametrize(("body", "test"), [(GUARDED, "mask.any()"), (PLAIN, "")])
def test_below_the_others_call_in_one_block_it_went_around_it(body: str, test: str) -> None:
    one = found(body)

    assert one is not None
    assert (one.gone, one.waiting, [way.test for way in one.around]) == ((1,), (0,), [test] if test else [])


def test_in_different_arms_it_is_a_matter_of_order() -> None:
    assert found(ARMS) is None
