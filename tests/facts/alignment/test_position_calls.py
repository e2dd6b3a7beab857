"""Extra calls that pair up by chance: the disagreement starts with them, not with the first other operation."""

from __future__ import annotations

from typing import Any

from tests.facts.jobs import call, job, recording
from unhang.facts.build import build_facts
from unhang.facts.model import Facts

WORLD = {"0": (0, 1, 2)}
FORWARD, BACKWARD, SAMPLE = ("all_gather", 24), ("all_reduce", 24), ("all_gather", 16)


def dumps(mine: list[tuple[str, int]], theirs: list[tuple[str, int]]) -> Facts:
    def calls(row: list[tuple[str, int]]) -> list[dict[str, Any]]:
        last = len(row)
        return [
            call(p, operation, line=line, state="scheduled" if p == last else "completed")
            for p, (operation, line) in enumerate(row, 1)
        ]

    return build_facts(job(*(recording(r, calls(mine if r == 0 else theirs), groups=WORLD) for r in range(3))))


def test_the_extra_calls_of_one_rank_are_where_it_began() -> None:
    step = [FORWARD, FORWARD, BACKWARD]

    (one,) = dumps([*step, SAMPLE, FORWARD, FORWARD], [*step, FORWARD, FORWARD, BACKWARD]).mismatches

    assert (one.position, one.outliers, one.differs_in) == (4, (0,), ("call-site",))


def test_calls_from_other_lines_that_shift_nothing_are_left_alone() -> None:
    (one,) = dumps([SAMPLE, ("barrier", 30)], [FORWARD, BACKWARD]).mismatches

    assert (one.position, one.differs_in) == (2, ("operation",))


def test_of_two_ranks_the_one_whose_extra_call_was_answered_is_odd() -> None:
    sync, gather, extra = ("all_reduce", 11), ("all_gather", 17), ("all_reduce", 9)
    mine, theirs = [sync, extra, sync, sync, sync], [sync, sync, sync, sync, gather]

    def calls(row: list[tuple[str, int]]) -> list[dict[str, Any]]:
        last = len(row)
        return [
            call(p, o, line=line, state="scheduled" if p == last else "completed") for p, (o, line) in enumerate(row, 1)
        ]

    both = {"0": (0, 1)}
    for odd in (0, 1):
        rows = (mine, theirs) if odd == 0 else (theirs, mine)
        (one,) = build_facts(job(*(recording(r, calls(row), groups=both) for r, row in enumerate(rows)))).mismatches
        assert (one.position, one.outliers, one.differs_in) == (2, (odd,), ("call-site",))


def test_of_two_ranks_whose_earlier_calls_are_alike_none_is_odd() -> None:
    row, other = [("all_reduce", 11), ("all_reduce", 11)], [("all_reduce", 11), ("all_gather", 17)]
    dumped = [
        recording(r, [call(p, o, line=n, state="scheduled") for p, (o, n) in enumerate(rows, 1)], groups={"0": (0, 1)})
        for r, rows in enumerate((row, other))
    ]
    (one,) = build_facts(job(*dumped)).mismatches
    assert (one.position, one.outliers) == (2, ())
