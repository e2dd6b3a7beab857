"""In few looks at a job that moves, the one they wait for is the one that waits least, and by far."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from unhang.evidence.items import Frame, Source, StackDump, ThreadStack
from unhang.facts.model import RankFacts
from unhang.facts.pace.straggler import find_straggler
from unhang.facts.stacks.activity import activity_of

WAITS = (Frame("all_reduce", "torch/distributed/distributed_c10d.py", 3042), Frame("main", "/job/train.py", 9))
WORKS = (Frame("augment", "/job/train.py", 20), Frame("main", "/job/train.py", 8))


def looked_at(rank: int, waits: Sequence[bool]) -> RankFacts:
    stacks = [
        StackDump(Source(f"rank_{rank}.txt"), rank, None, (ThreadStack("MainThread", "1", frames),), "py-spy")
        for frames in (WAITS if one else WORKS for one in waits)
    ]
    return RankFacts(
        rank,
        moving=True,
        stack=stacks[-1],
        earlier_stacks=tuple(stacks[:-1]),
        activity=activity_of(stacks[-1], {})[0],
    )


@pytest.mark.parametrize(
    ("waits", "rank"),
    [
        ((0, 5, 5), 0),
        ((2, 5, 5), 0),
        ((5, 5, 1), 2),
        ((2, 4, 5), None),
        ((3, 5, 5), None),
        ((0, 0, 5), None),
        ((0, 2, 2), None),
    ],
)
def test_of_five_looks_one_waits_far_less(waits: tuple[int, ...], rank: int | None) -> None:
    ranks = {number: looked_at(number, [look >= 5 - times for look in range(5)]) for number, times in enumerate(waits)}

    found = find_straggler({}, ranks, {})

    assert (found.rank if found else None) == rank
    if found is not None:
        assert found.activity is not None
        assert [frame.function for frame in found.activity.frames] == ["augment", "main"]
