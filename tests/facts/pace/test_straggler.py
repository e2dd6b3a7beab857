"""In few looks at a job that moves, the one they wait for is the one that waits least, and by far."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.facts.jobs import call, job, recording
from unhang.evidence.items import Frame, Source, StackDump, ThreadStack
from unhang.facts.build import build_facts
from unhang.facts.model import RankFacts
from unhang.facts.pace.straggler import find_least_waiting, find_straggler, latest_arriver, may_be_waited_for
from unhang.facts.stacks.activity import activity_of
from unhang.wire.documents.bundle import RankProcess

WAITS = (Frame("all_reduce", "torch/distributed/distributed_c10d.py", 3042), Frame("main", "/job/train.py", 9))
BACKWARD = (Frame("_engine_run_backward", "torch/autograd/graph.py", 824), Frame("main", "/job/train.py", 12))
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


AT_21 = (Frame("augment", "/job/train.py", 21), Frame("main", "/job/train.py", 8))
AT_8 = (Frame("main", "/job/train.py", 8),)


@pytest.mark.parametrize(
    ("busy", "others_once", "own"),
    [
        (12, WAITS, (1.0, "augment")),
        (12, AT_21, (1.0, "")),  # they are in the same function, at another line
        (12, AT_8, (1.0, "augment")),  # they are at the line that calls it
        (12, WORKS, None),
        (5, WAITS, None),  # by chance, or too little of the time
    ],
)
def test_where_only_the_slow_rank_is_stands_out(
    busy: int, others_once: tuple[Frame, ...], own: tuple[float, str] | None
) -> None:
    looks = {
        0: [WORKS] * busy + [BACKWARD] * (12 - busy),
        1: [WAITS] * 11 + [others_once],
        2: [others_once] + [WAITS] * 11,
    }
    ranks = {}
    for rank, seen in looks.items():
        stacks = [
            StackDump(
                Source(f"rank_{rank}.txt"), rank, None, (ThreadStack("MainThread", "1", frames, active=True),), ""
            )
            for frames in seen
        ]
        told = activity_of(stacks[-1], {})[0]
        ranks[rank] = RankFacts(rank, moving=True, stack=stacks[-1], earlier_stacks=tuple(stacks[:-1]), activity=told)

    found = find_straggler({}, ranks, {})

    assert found is None or found.rank == 0
    assert (found.own if found is not None else None) == own


def in_backward(rank: int, active: Sequence[bool], busy: float | None = None) -> RankFacts:
    """``busy``: the share of the time between the looks, a second apart, in which its thread wanted a processor."""
    stacks = [
        StackDump(
            Source(f"rank_{rank}.txt"), rank, None, (ThreadStack("MainThread", "1", BACKWARD, active=one),), "py-spy"
        )
        for one in active
    ]
    times = range(len(active)) if busy is not None else ()
    kernel = tuple({"at_ns": at * 10**9, "busy_ns": int(at * (busy or 0) * 10**9)} for at in times)
    return RankFacts(
        rank,
        moving=True,
        process=RankProcess(rank, kernel=kernel),
        stack=stacks[-1],
        earlier_stacks=tuple(stacks[:-1]),
        activity=activity_of(stacks[-1], {})[0],
    )


@pytest.mark.parametrize(
    ("third", "slow"), [((True,) * 5, 2), ((True, False, False, True, False), None), ((False,) * 5, None)]
)
def test_who_computes_in_backward_while_the_others_sleep_there_does_not_wait(
    third: Sequence[bool], slow: int | None
) -> None:
    ranks = {0: in_backward(0, [False] * 5), 1: in_backward(1, [False] * 5), 2: in_backward(2, third)}

    found = find_straggler({}, ranks, {})

    assert (found.rank if found else None) == slow
    assert slow is None or (found is not None and found.activity is not None and found.activity.what == "backward")


def test_where_nobody_sleeps_in_backward_waiting_and_computing_look_alike() -> None:
    assert find_straggler({}, {rank: in_backward(rank, [True] * 5) for rank in range(3)}, {}) is None


@pytest.mark.parametrize(("busy", "slow"), [((0.7, 0.72, 0.97), 2), ((0.85, 0.9, 0.97), None), ((1.0, 1.0, 1.0), None)])
def test_whose_thread_wants_a_processor_far_more_than_the_others_is_slow(
    busy: Sequence[float], slow: int | None
) -> None:
    asleep = ((False, True, True, False, True), (True, False, True, False, True), (True, True, False, True, True))
    ranks = {rank: in_backward(rank, asleep[rank], busy[rank]) for rank in range(3)}

    found = find_straggler({}, ranks, {})

    assert (found.rank if found else None) == slow
    assert found is None or found.cost == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("waits", "rank"),
    [((0, 5, 9), 0), ((3, 7, 9), 0), ((4, 7, 9), None), ((5, 6, 6), None), ((0, 0, 9), None), ((0, 0, 0), None)],
)
def test_of_twelve_looks_one_waits_so_much_less_that_the_others_may_wait_for_it(
    waits: tuple[int, ...], rank: int | None
) -> None:
    ranks = {
        number: looked_at(number, [look >= 12 - times for look in range(12)]) for number, times in enumerate(waits)
    }

    least = find_least_waiting(ranks, {})

    assert least is not None
    assert (least.rank if may_be_waited_for(least) else None) == rank


def arrivals(*steps: Sequence[tuple[float, float]]) -> tuple[int, float] | None:
    """Of steps that last a second: when rank 0 and rank 1 enter each collective of them, in seconds of the step."""
    moments = [(second + one, second + other) for second, step in enumerate(steps) for one, other in step]
    return entered(*zip(*moments, strict=True))


def entered(*times_s: Sequence[float]) -> tuple[int, float] | None:
    """When each rank entered one collective after the other: who is late, and for which share of the time."""
    calls = [
        [call(position) | {"time_created_ns": int((1000 + at_s) * 1e9)} for position, at_s in enumerate(mine, 1)]
        for mine in times_s
    ]
    groups = {"0": tuple(range(len(calls)))}
    facts = build_facts(job(*(recording(rank, mine, groups=groups, whole=True) for rank, mine in enumerate(calls))))
    found = latest_arriver(facts.groups, facts.ranks)
    return (found.rank, round(found.cost, 2)) if found is not None else None


REAL = json.loads(Path(__file__).with_name("arrivals.json").read_text(encoding="utf-8"))
"""Two ranks of DDP jobs with Gloo on two busy processors: when they entered a collective, in tenths of milliseconds."""
LATE = {
    "its collate function": (1, 0.48),
    "sequences 1.3 times as long": (1, 0.23),
    "sequences 1.6 times as long": (1, 0.32),
}


@pytest.mark.parametrize("name", REAL)
def test_of_real_jobs_the_rank_that_all_wait_for_is_told_and_uneven_ones_are_nobodys_fault(name: str) -> None:
    assert entered(*([at / 1e4 for at in mine] for mine in REAL[name])) == LATE.get(name)


def test_a_second_collective_to_which_all_come_together_hides_nobody() -> None:
    late = [(0.1, 0.7), (0.75, 0.74)]

    assert arrivals(*[late] * 40) == (1, 0.6)


def test_two_buckets_of_one_backward_are_one_wait() -> None:
    assert arrivals(*[[(0.1, 0.5), (0.15, 0.6)]] * 40) == (1, 0.45)


def test_ranks_that_take_turns_are_nobodys_fault() -> None:
    assert arrivals(*[[(0.1, 0.7)], [(0.7, 0.1)]] * 20) is None


def test_a_rank_that_is_late_every_tenth_step_does_not_set_the_pace() -> None:
    assert arrivals(*[*[[(0.1, 0.12)]] * 9, [(0.1, 0.9)]] * 8) is None
