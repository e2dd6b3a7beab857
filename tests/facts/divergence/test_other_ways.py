"""Who made a call without the others, or went on without one, and what leads around it."""

from __future__ import annotations

import textwrap

import pytest

from tests.facts.jobs import call, job, recording
from unhang.evidence.items import SourceFile
from unhang.facts.build import build_facts
from unhang.facts.divergence.other_ways import OtherWay, other_ways
from unhang.findings import Source

Row = list[tuple[str, int, int]]
"""Operation, line and size of each call."""
PROGRAM = """
def train(model, loader):
    for step, batch in enumerate(loader):
        loss = model(batch)
        if not torch.isfinite(loss):
            continue
        loss.backward()
        if score(batch) > best:
            dist.all_reduce(seen, async_op=True)
"""
FORWARD, HEAD, BODY, SEEN = ("broadcast", 4, 64), ("all_reduce", 7, 1873), ("all_reduce", 7, 77), ("all_reduce", 9, 77)
STEP = [FORWARD, HEAD, BODY]


def ways_of(*rows: Row, before: Row = STEP * 5, program: str = PROGRAM) -> tuple[OtherWay, ...]:
    """Each rank's calls, after those that all made ``before``; it is in the last one."""
    groups = {"0": tuple(range(len(rows)))}
    dumps = [
        recording(
            rank,
            [
                call(
                    at,
                    operation,
                    line=line,
                    size=(size,),
                    state="scheduled" if at == len(row) + len(before) else "completed",
                )
                for at, (operation, line, size) in enumerate([*before, *row], 1)
            ],
            groups=groups,
        )
        for rank, row in enumerate(rows)
    ]
    evidence = job(*dumps)
    evidence.sources.append(SourceFile(Source("train.py"), "/job/train.py", textwrap.dedent(program)))
    return other_ways(build_facts(evidence))


@pytest.mark.parametrize("gone", [(2,), (1, 2)], ids=["one", "most"])
def test_who_is_past_the_call_that_came_next_has_skipped_it(gone: tuple[int, ...]) -> None:
    (way,) = ways_of(*([FORWARD, FORWARD] if rank in gone else [FORWARD, HEAD] for rank in range(3)))

    assert (way.ranks, way.skipped, way.mismatch.position) == (gone, True, 17)
    assert way.call is not None
    assert [(one.kind, one.where.line) for one in way.call.around] == [("continue", 6)]


@pytest.mark.parametrize("alone", [(2,), (1, 2)], ids=["one", "most"])
def test_a_call_that_did_not_come_next_is_that_of_those_who_made_it(alone: tuple[int, ...]) -> None:
    (way,) = ways_of(*([*STEP, SEEN] if rank in alone else [*STEP, FORWARD] for rank in range(3)))

    assert (way.ranks, way.skipped) == (alone, False)
    assert way.call is not None
    assert (way.call.around[0].kind, way.call.around[0].test) == ("if", "score(batch) > best")


EVEN, EXTRA, LAST = ("all_reduce", 7, 8), ("all_reduce", 9, 8), ("barrier", 12, 1)


def test_an_extra_call_that_nobody_waits_for_is_found_where_it_was_made() -> None:
    """Of one size with the others: the calls after it stand one position late, and the first that differs is far."""
    (way,) = ways_of([*[EVEN] * 6, LAST], [EXTRA, *[EVEN] * 6], before=[EVEN] * 15)

    assert (way.ranks, way.skipped, way.mismatch.position) == ((1,), False, 16)


def test_of_extra_calls_in_many_steps_the_first_is_named() -> None:
    twice = [EXTRA, EVEN] * 6
    (way,) = ways_of(twice, twice, [*[EVEN] * 9, LAST], before=[EVEN] * 15)

    assert (way.ranks, way.skipped, way.mismatch.position, way.whole) == ((0, 1), False, 16, False)


def test_only_of_few_against_many_it_is_whole() -> None:
    few, most = (
        ways_of(*([*STEP, SEEN] if rank in alone else [*STEP, FORWARD] for rank in range(3)))[0]
        for alone in ((2,), (1, 2))
    )
    assert (few.whole, most.whole) == (True, False)


def test_another_size_at_the_same_line_is_no_other_way() -> None:
    assert ways_of([FORWARD, HEAD], [FORWARD, ("all_reduce", 7, 1800)], [FORWARD, HEAD]) == ()


def test_two_arms_of_one_test_are_two_calls() -> None:
    arms = PROGRAM + "        else:\n            dist.broadcast(seen, src=0)\n"
    assert ways_of([*STEP, SEEN], [*STEP, ("broadcast", 11, 77)], program=arms) == ()


def test_who_came_out_of_a_trainer_has_not_called_alone() -> None:
    """Its loop is in a library; torch has none, so that a line of backward is no such."""
    program = "trainer.fit(model)\ntrainer.save()\n"
    ways = {}
    for library in ("lightning/pytorch/trainer.py", "torch/_tensor.py"):
        evidence = job(
            *(
                recording(
                    rank,
                    [
                        {**call(at, line=1), "frames": [*inner(library), *call(at, line=1)["frames"][1:]]}
                        if at < 9 or rank
                        else call(at, "barrier", line=2, state="scheduled")
                        for at in range(1, 10)
                    ],
                    groups={"0": (0, 1)},
                )
                for rank in range(2)
            )
        )
        evidence.sources.append(SourceFile(Source("train.py"), "/job/train.py", program))
        (ways[library],) = other_ways(build_facts(evidence))

    assert [way.call is not None and way.call.came_out is not None for way in ways.values()] == [True, False]


def inner(library: str) -> list[dict[str, object]]:
    return [{"name": "run", "filename": f"/venv/lib/python3.11/site-packages/{library}", "line": 7}]
