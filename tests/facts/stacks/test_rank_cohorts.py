"""Who stands where in the user's program."""

from __future__ import annotations

from tests.cases.make_control_flow import LOOP
from tests.facts.jobs import call, job, recording
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import SourceFile
from unhang.facts.build import build_facts
from unhang.facts.model import CodeContext, Facts
from unhang.facts.stacks.rank_cohorts import (
    RankCohort,
    cohort_past_shared_call,
    cohorts_of_mismatch,
    cohorts_of_stall,
    has_left_loop,
    split_by_loop,
)
from unhang.findings import Source

PROGRAM = LOOP.lstrip().replace("main()", "train()")
REDUCE, BARRIER = (
    1 + PROGRAM.splitlines().index(line) for line in ("        dist.all_reduce(loss)", "    dist.barrier()")
)
WORLD = {"0": (0, 1, 2)}


def facts(*last: tuple[str, int], source: bool = True) -> Facts:
    """The last call of each rank, by operation and line; all before it are finished."""
    dumps = [
        recording(r, [call(40, line=REDUCE), call(41, operation, state="scheduled", line=line)], groups=WORLD)
        for r, (operation, line) in enumerate(last)
    ]
    evidence: EvidenceSet = job(*dumps)
    if source:
        evidence.sources.append(SourceFile(Source("train.py"), "/job/train.py", PROGRAM))
    return build_facts(evidence)


def test_camps_are_the_call_sites_biggest_first() -> None:
    known = facts(("barrier", BARRIER), ("all_reduce", REDUCE), ("all_reduce", REDUCE))

    camps = cohorts_of_mismatch(known, known.mismatches[0])

    assert [(c.ranks, c.where and c.where.line) for c in camps] == [((1, 2), REDUCE), ((0,), BARRIER)]
    assert [c.context for c in camps] == [CodeContext.INSIDE_LOOP, CodeContext.AFTER_LOOP]


def test_past_the_loop_and_inside_it_are_told_apart() -> None:
    known = facts(("barrier", BARRIER), ("all_reduce", REDUCE), ("all_reduce", REDUCE))

    pair = split_by_loop(cohorts_of_mismatch(known, known.mismatches[0]))

    assert pair is not None
    assert (pair[0].ranks, pair[1].ranks) == ((0,), (1, 2))


def test_without_source_nobody_is_past_anything() -> None:
    known = facts(("barrier", BARRIER), ("all_reduce", REDUCE), ("all_reduce", REDUCE), source=False)

    camps = cohorts_of_mismatch(known, known.mismatches[0])

    assert {c.context for c in camps} == {CodeContext.NO_SOURCE}
    assert split_by_loop(camps) is None


def test_a_laggard_without_a_place_is_not_past_the_loop() -> None:
    dumps = [
        recording(r, [call(40, line=REDUCE), *([call(41, state="scheduled", line=REDUCE)] if r else [])], groups=WORLD)
        for r in range(3)
    ]
    evidence = job(*dumps)
    evidence.sources.append(SourceFile(Source("train.py"), "/job/train.py", PROGRAM))
    known = build_facts(evidence)

    lag, wait = cohorts_of_stall(known, known.stalls[0])

    assert (lag.ranks, lag.where) == ((0,), None)
    assert wait.context is CodeContext.INSIDE_LOOP
    assert not has_left_loop(lag, wait)


TRAINER = """
def main(rank):
    fit(model)
    {between}
    save(model)
"""


def sides(program: str, first: str, second: str) -> tuple[Facts, tuple[RankCohort, ...]]:
    """Rank 0 in an all-reduce below the line ``first``, rank 1 in a barrier below ``second``."""
    lines = [row.strip() for row in program.splitlines()]
    calls = (("all_reduce", first), ("barrier", second))
    dumps = [
        recording(
            rank,
            [call(40, line=1), call(41, operation, state="scheduled", line=1 + lines.index(row))],
            groups={"0": (0, 1)},
        )
        for rank, (operation, row) in enumerate(calls)
    ]
    evidence = job(*dumps)
    evidence.sources.append(SourceFile(Source("train.py"), "/job/train.py", program.replace("main", "train")))
    known = build_facts(evidence)
    return known, cohorts_of_mismatch(known, known.mismatches[0])


def test_who_stands_below_the_call_of_the_other_has_come_through_it() -> None:
    known, camps = sides(TRAINER.format(between="print()"), "fit(model)", "save(model)")

    found = cohort_past_shared_call(known, camps)

    assert found is not None
    assert (found[0].ranks, found[1]) == ((1,), 3)


def test_in_a_loop_the_other_may_be_a_round_ahead() -> None:
    looped = "\ndef main(rank):\n    for epoch in range(9):\n        fit(model)\n        save(model)\n"

    assert cohort_past_shared_call(*sides(looped, "fit(model)", "save(model)")) is None


def test_in_two_arms_nobody_is_below() -> None:
    arms = "\ndef main(rank):\n    if late():\n        fit(model)\n    else:\n        save(model)\n"

    assert cohort_past_shared_call(*sides(arms, "fit(model)", "save(model)")) is None
