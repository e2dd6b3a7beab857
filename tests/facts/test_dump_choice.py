"""One dump per rank, of one job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.facts.jobs import call, recording
from unhang.evidence.items import RecorderDump
from unhang.facts.dump_choice import choose_dumps
from unhang.findings import Certainty

WORLD = {"0": (0, 1, 2)}
DAY_NS = 86_400_000_000_000


def calls(upto: int, *, later_ns: int = 0) -> list[dict[str, Any]]:
    made = [call(p) for p in range(1, upto + 1)]
    return [dict(c, time_created_ns=c["time_created_ns"] + c["collective_seq_id"] * 10**9 + later_ns) for c in made]


def test_the_later_of_two_dumps_of_a_rank_is_used_and_the_rank_has_advanced() -> None:
    early = recording(0, calls(3), groups=WORLD, name="a/rank_0")
    late = recording(0, calls(9), groups=WORLD, name="b/rank_0")

    for given in ([early, late], [late, early]):
        choice = choose_dumps(given)
        assert choice.by_rank == {0: late}
        assert choice.advanced_ranks == {0}


def test_the_same_dump_twice_is_no_advance() -> None:
    twice = [recording(0, calls(3), groups=WORLD, name=name) for name in ("a/rank_0", "b/rank_0")]

    assert choose_dumps(twice).advanced_ranks == set()


def test_two_processes_that_dumped_under_one_rank_leave_nothing_certain() -> None:
    own = recording(0, calls(9), groups=WORLD, name="nccl_trace_rank_0")
    others = recording(0, calls(9, later_ns=10**9), groups=WORLD, name="copied_rank_0")

    choice = choose_dumps([own, others])

    assert choice.by_rank == {0: others}
    assert choice.advanced_ranks == set()
    assert [gap.caps for gap in choice.not_checked] == [Certainty.LIKELY]
    assert not choose_dumps([own, recording(0, calls(12), groups=WORLD, name="later_rank_0")]).not_checked


def test_of_two_jobs_the_latest_is_taken_and_the_other_named() -> None:
    old = [recording(r, calls(3), groups={"0": (0, 1)}, name=f"old/rank_{r}") for r in (0, 1)]
    new = [recording(r, calls(3, later_ns=DAY_NS), groups=WORLD, name=f"new/rank_{r}") for r in (0, 1, 2)]

    choice = choose_dumps([*new, *old])

    assert [r.source.path for _, r in sorted(choice.by_rank.items())] == [f"new/rank_{r}" for r in (0, 1, 2)]
    assert sorted(u.source.path for u in choice.unread) == ["old/rank_0", "old/rank_1"]
    assert [gap.caps for gap in choice.not_checked] == [Certainty.LIKELY]


def test_two_runs_of_one_job_a_day_apart_are_two() -> None:
    old = [recording(r, calls(3), groups=WORLD, name=f"old/rank_{r}") for r in range(3)]
    new = [recording(r, calls(3, later_ns=DAY_NS), groups=WORLD, name=f"new/rank_{r}") for r in range(3)]

    choice = choose_dumps([*old, *new])

    assert {r.source.path.split("/")[0] for r in choice.by_rank.values()} == {"new"}


def test_clocks_that_differ_do_not_split_a_job() -> None:
    dumps = [recording(r, calls(3, later_ns=r * DAY_NS), groups=WORLD) for r in range(3)]

    assert sorted(choose_dumps(dumps).by_rank) == [0, 1, 2]


def unnamed(recording_: RecorderDump) -> RecorderDump:
    return replace(recording_, rank=None)


def test_one_dump_without_a_rank_gets_the_only_rank_that_is_free() -> None:
    named = [recording(r, calls(3), groups=WORLD) for r in (0, 2)]

    assert sorted(choose_dumps([*named, unnamed(recording(1, calls(3), groups=WORLD))]).by_rank) == [0, 1, 2]


def test_a_dump_whose_rank_cannot_be_told_is_said_and_not_guessed() -> None:
    choice = choose_dumps([unnamed(recording(1, calls(3), groups=WORLD, name="dump.bin"))])

    assert choice.by_rank == {}
    assert [u.source.path for u in choice.unread] == ["dump.bin"]
