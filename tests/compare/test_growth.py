"""What is called growth is more than noise, and is put down to who works longer and not to who waits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unhang.findings import Phase, Source, Where
from unhang_compare.compare import compare_ranks, compare_sides, compare_spans
from unhang_compare.comparison import GREW, SAME, SHRANK, UNDECIDED, RunComparison
from unhang_compare.comparison_side import TRACE, ComparisonSide
from unhang_compare.rank_times import CARD, DEVICE, MAIN, OWN, THREAD, WAITING, Activity, RankTimes

COMPUTE = Activity(Where("train.py", 5, "step"), "", "", Phase.COMPUTE)
WRITE = Activity(Where("train.py", 9, "log"), "writer.add_scalar", "flush", Phase.LOG)
WAIT = Activity(Where("train.py", 7, "step"), "all_reduce", "wait", Phase.COMMUNICATION, WAITING)


def times(
    rank: int | None, parts: dict[Activity, float], *, count: int = 40, noise: float = 0.05, seed: int = 0
) -> RankTimes:
    """Steps made of ``parts`` (milliseconds), each a little longer or shorter than that."""
    generator = np.random.default_rng((seed, rank or 0))
    spent = {a: np.abs(generator.normal(ms / 1e3, noise * ms / 1e3, count)) for a, ms in parts.items()}
    own = sum(seconds for activity, seconds in spent.items() if activity.on == MAIN)
    return RankTimes(Source("t"), rank, np.arange(count), np.ones(count), np.asarray(own), spent)


def side(*ranks: RankTimes, world_size: int | None = None) -> ComparisonSide:
    return ComparisonSide("side", TRACE, list(ranks), world_size=world_size)


def compared(before: list[RankTimes], after: list[RankTimes], world_size: int | None = None) -> RunComparison:
    return compare_sides(side(*before, world_size=world_size), side(*after, world_size=world_size))


def test_what_grew_is_named_with_its_rank_its_line_and_how_much() -> None:
    before = [times(0, {COMPUTE: 10, WRITE: 2, WAIT: 1}), times(1, {COMPUTE: 10, WAIT: 3})]
    after = [times(0, {COMPUTE: 10, WRITE: 12, WAIT: 1}, seed=1), times(1, {COMPUTE: 10, WAIT: 13}, seed=1)]

    found = compared(before, after)

    assert found.answer == GREW
    assert found.exit_code == 1
    work, wait = (next(p for p in found.grew if p.kind == kind) for kind in (OWN, WAITING))
    assert (work.where, work.ranks, work.inside) == (WRITE.where, (0,), "flush")
    assert work.difference.grew_s == pytest.approx(0.010, abs=0.0005)
    assert work.difference.low_s < work.difference.grew_s < work.difference.high_s
    assert wait.ranks == (1,)
    assert ": rank 0 spends 9.88 ms more in log (train.py:9)" in str(found.summary)
    assert "rank 1 waits for rank 0" in str(found.because[1])


def test_a_rank_that_waits_inside_of_backward_is_not_the_one_that_works_longer() -> None:
    """DDP over Gloo as torch records it: the wait is in the autograd engine, the collective on another thread."""
    backward = Activity(Where("train.py", 7, "step"), "torch._tensor.backward", "run_backward of torch", Phase.COMPUTE)
    bucket = Activity(None, "gloo:all_reduce", "", Phase.COMMUNICATION, WAITING, THREAD)
    before = [times(0, {backward: 3, bucket: 2, WRITE: 2}), times(1, {backward: 5, bucket: 4})]
    waits = times(1, {backward: 25, bucket: 24}, seed=1)

    found = compared(before, [times(0, {backward: 3, bucket: 2, WRITE: 21}, seed=1), waits])

    assert ": rank 0 spends " in str(found.summary)
    assert "rank 1 waits for rank 0" in str(found.because[1])
    works = times(1, {backward: 25, bucket: 4}, seed=1)
    own = compared(before, [times(0, {backward: 23, bucket: 22, WRITE: 2}, seed=1), works])
    assert ": rank 1 spends " in str(own.summary)


@pytest.mark.parametrize("noise", [0.02, 0.2])
def test_the_same_job_twice_is_no_difference(noise: float) -> None:
    parts = {COMPUTE: 10, WRITE: 2, WAIT: 3}
    answers = [
        compared([times(0, parts, seed=2 * at, noise=noise)], [times(0, parts, seed=2 * at + 1, noise=noise)]).answer
        for at in range(40)
    ]

    assert answers.count(SAME) >= 39


def test_what_becomes_faster_is_no_finding() -> None:
    found = compared([times(0, {COMPUTE: 20})], [times(0, {COMPUTE: 10})])

    assert (found.answer, found.exit_code) == (SHRANK, 0)
    assert found.grew == ()
    assert found.shrank[0].where == COMPUTE.where


@pytest.mark.parametrize("count", [1, 2])
def test_few_steps_tell_nothing(count: int) -> None:
    found = compared([times(0, {COMPUTE: 10}, count=count)], [times(0, {COMPUTE: 30})])

    assert (found.answer, found.exit_code) == (UNDECIDED, 3)
    assert f"({count} before, 40 after)" in str(found.summary)


def test_a_few_much_longer_steps_are_told_from_all_being_longer() -> None:
    before, after = times(0, {COMPUTE: 10, WRITE: 0.1}, count=200), times(0, {COMPUTE: 10, WRITE: 0.1}, count=200)
    for at in range(0, 200, 10):
        after.spent[WRITE][at] += 0.05
        after.step_s[at] += 0.05

    found = compared([before], [after])

    assert found.answer == GREW
    assert "Most steps take as long as before" in str(found.because[0])
    assert found.grew[0].where == WRITE.where


def test_where_everybody_only_waits_the_reason_is_elsewhere() -> None:
    before, after = ([times(0, {COMPUTE: 10, WAIT: ms}, seed=at)] for at, ms in enumerate((3, 15)))

    alone = compared(before, after, world_size=4)
    both = compared(
        [*before, times(1, {COMPUTE: 10, WAIT: 3})], [*after, times(1, {COMPUTE: 10, WAIT: 15}, seed=5)], world_size=2
    )

    assert "no rank compared here works longer" in str(alone.summary)
    assert "ranks 1-3" in str(alone.because[0])
    assert "Every rank was compared" in str(both.because[0])


def test_waiting_for_the_card_is_put_down_to_what_the_card_does() -> None:
    gemm = Activity(COMPUTE.where, "aten::mm", "gemm", Phase.COMPUTE, OWN, CARD)
    sync = Activity(COMPUTE.where, "item", "cudaStreamSynchronize", Phase.COMPUTE, DEVICE)

    found = compared([times(0, {COMPUTE: 2, sync: 10, gemm: 9})], [times(0, {COMPUTE: 2, sync: 30, gemm: 28})])

    assert "the GPU works" in str(found.summary)


def test_a_rank_of_one_side_only_is_named() -> None:
    found = compared([times(0, {COMPUTE: 10}), times(1, {COMPUTE: 10})], [times(0, {COMPUTE: 10})])

    assert "rank 1 of side" in str(found.not_compared[0].what)


def test_ranks_that_are_not_known_are_compared_all_the_same() -> None:
    assert compared([times(None, {COMPUTE: 10})], [times(3, {COMPUTE: 20})]).answer == GREW


def test_lines_that_moved_when_the_program_was_edited_are_the_same_lines() -> None:
    moved = replace(COMPUTE, where=Where("/new/train.py", 25, "step"))

    found = compared([times(0, {COMPUTE: 10})], [times(0, {moved: 10}, seed=1)])

    assert found.answer == SAME
    assert found.grew == found.shrank == ()


def test_within_one_run_another_line_is_another_line() -> None:
    other = replace(COMPUTE, where=Where("train.py", 6, "step"))

    found = compare_spans(side(times(0, {COMPUTE: 10})), side(times(0, {other: 20})))

    assert [part.where.line for part in found.grew if part.where] == [6]
    assert [part.where.line for part in found.shrank if part.where] == [5]


def test_two_ranks_that_step_alike_differ_in_what_they_do() -> None:
    one, other = times(0, {COMPUTE: 10, WRITE: 8, WAIT: 1}), times(1, {COMPUTE: 10, WAIT: 9})

    found = compare_ranks(side(one), side(other))

    assert found.answer == GREW
    assert str(found.summary).startswith("rank 0 spends 8")
    assert "Meanwhile rank 1 waits" in str(found.because[0])


def test_two_ranks_that_do_the_same_do_not_differ() -> None:
    found = compare_ranks(side(times(0, {COMPUTE: 10, WAIT: 2})), side(times(1, {COMPUTE: 10, WAIT: 2})))

    assert (found.answer, found.exit_code) == (SAME, 0)


def test_of_a_thousand_ranks_those_that_changed_are_looked_at() -> None:
    parts = {COMPUTE: 10, WAIT: 2}
    before = [times(rank, parts, count=6) for rank in range(70)]
    after = [
        times(rank, {**parts, WRITE: 20} if rank == 57 else {COMPUTE: 10, WAIT: 22}, count=6) for rank in range(70)
    ]

    found = compared(before, after)

    assert found.grew[0].kind == WAITING or found.grew[0].ranks == (57,)
    assert next(part for part in found.grew if part.kind == OWN).ranks == (57,)
    assert "70 ranks" in str(found.not_compared[0].what)


def test_a_large_difference_from_a_handful_of_samples_is_not_called_the_same() -> None:
    """A run of three seconds beside one that became seven times as slow half way: rows of a second each."""

    def seconds_of(rank: int, seconds: list[float]) -> RankTimes:
        steps = np.array([max(1.0, 1.0 // one) for one in seconds])
        return RankTimes(Source("t"), rank, np.cumsum(steps), steps, np.array(seconds), {})

    short = [seconds_of(0, [0.0212, 0.0213, 0.0216]), seconds_of(1, [0.0212, 0.0216])]
    long = [seconds_of(rank, [0.0212] * 13 + [0.067] + [0.151] * 23) for rank in (0, 1)]

    found = compared(short, long)

    assert found.answer == UNDECIDED
    assert "too short to rule out noise" in str(found.summary)
    assert compared(short, short).answer == SAME
    assert compared(long, long).answer == SAME


def test_a_headline_without_enough_samples_carries_the_figures_of_the_table() -> None:
    before = [times(rank, {COMPUTE: 126}, count=1, noise=0) for rank in (0, 1)]
    after = [times(rank, {COMPUTE: 501}, count=2, noise=0) for rank in (0, 1)]

    found = compare_spans(side(*before), side(*after))

    assert found.answer == UNDECIDED
    assert found.before.steps is not None
    assert str(found.summary).startswith("Steps take 501 ms instead of 126 ms, but there are too few samples (2 before")
    assert "few steps" not in str(found.summary)
    assert str(found.summary).endswith("5 steps on each side would be enough")


def rows(rank: int, *samples: tuple[int, float, float]) -> RankTimes:
    """As ``unhang run`` keeps them: (steps, seconds a step, longest step) of about a second each."""
    steps, step_s, longest_s = (np.array(column, dtype=float) for column in zip(*samples, strict=True))
    return RankTimes(Source("t"), rank, np.cumsum(steps), steps, step_s, {}, longest_s)


def test_few_samples_tell_what_lies_far_apart() -> None:
    """Seconds of 126 ms steps beside seconds of 501 ms steps: no step of one side is as long as any of the other."""
    before = [rows(rank, (8, 0.126, 0.129)) for rank in (0, 1)]
    after = [rows(rank, (2, 0.5010, 0.5015), (2, 0.5003, 0.506), (2, 0.502, 0.503)) for rank in (0, 1)]

    slower, faster = compare_spans(side(*before), side(*after)), compare_spans(side(*after), side(*before))

    assert (slower.answer, faster.answer) == (GREW, SHRANK)
    assert "501 ms instead of 126 ms" in str(slower.summary)
    assert slower.pairs[0].median.low_s > 0.36


def test_samples_that_may_hide_a_step_as_long_tell_how_many_would_be_enough() -> None:
    before = [rows(rank, (8, 0.126, 0.52)) for rank in (0, 1)]
    after = [rows(rank, (2, 0.501, 0.5015), (2, 0.5003, 0.506)) for rank in (0, 1)]

    found = compare_spans(side(*before), side(*after))

    assert found.answer == UNDECIDED
    assert str(found.summary).endswith("96 steps on each side would be enough")
