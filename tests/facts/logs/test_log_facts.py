"""What logs alone tell: one incident of many timeouts, its beginning, limits, settings, stages."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.evidence.inputs import read_evidence
from unhang.facts.alignment.sequence_offset import find_sequence_offset
from unhang.facts.build import build_facts
from unhang.facts.laggard.work_in_lines import spanning_work
from unhang.facts.logs.event_timing import EventTiming, timing_of
from unhang.facts.logs.logged_values import logged_settings, overruled_settings
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.model import Facts
from unhang.facts.pace.step_slowdown import StepSlowdown, step_slowdown
from unhang.facts.waiting.timeouts import limit_not_in_force


def facts_of(tmp_path: Path, *lines: str) -> Facts:
    path = tmp_path / "job.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return build_facts(read_evidence([str(path)]))


def timeout(rank: int, position: int, *, at: str, limit_ms: int = 600_000, operation: str = "ALLREDUCE") -> str:
    return (
        f"[rank{rank}]:[E1009 {at}.000000000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum={position}, OpType={operation}, NumelIn=12, NumelOut=12, "
        f"Timeout(ms)={limit_ms}) ran for {limit_ms} milliseconds before timing out."
    )


def test_several_timeouts_are_one_incident_that_began_a_limit_ago(tmp_path: Path) -> None:
    incident = logged_waits(facts_of(tmp_path, timeout(1, 41, at="08:53:20"), timeout(2, 41, at="08:53:25")))

    assert incident is not None
    assert incident.ranks == (1, 2)
    assert incident.limits == (600.0,)
    ended = min(wait.ended_s for wait in incident.waits if wait.ended_s is not None)
    assert incident.began_s == ended - 600


def test_a_barrier_is_told_by_its_one_element(tmp_path: Path) -> None:
    line = timeout(1, 2, at="08:53:20").replace("NumelIn=12, NumelOut=12", "NumelIn=1, NumelOut=1")
    incident = logged_waits(facts_of(tmp_path, line))

    assert incident is not None
    assert incident.waits[0].barrier


def test_the_limit_set_and_the_limit_that_passed_are_compared(tmp_path: Path) -> None:
    found = limit_not_in_force(
        facts_of(tmp_path, "+ accelerate launch train.py --ddp_timeout 7200", timeout(1, 41, at="08:53:20"))
    )

    assert found is not None
    assert (found.set_s, found.passed_s) == (7200.0, 600.0)
    assert limit_not_in_force(facts_of(tmp_path, "--ddp_timeout 600", timeout(1, 41, at="08:53:20"))) is None


def test_the_librarys_word_wins_over_the_shells(tmp_path: Path) -> None:
    facts = facts_of(
        tmp_path, "+ export NCCL_IB_HCA=mlx5_0", "n1:10:110 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_3."
    )

    assert logged_settings(facts)["NCCL_IB_HCA"].value == "mlx5_3"
    assert [(mine.value, library.value) for mine, library in overruled_settings(facts)] == [("mlx5_0", "mlx5_3")]


def test_an_error_is_placed_before_or_after_the_first_steps(tmp_path: Path) -> None:
    started = "n1:10:110 [0] NCCL INFO comm 0x55d0 rank 0 nranks 2 cudaDev 0 busId 7000 - Init START"
    error = "n1:10:110 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4000> with error 12, opcode 0, len 0"
    steps = [f"step {number} loss 2.0" for number in range(40)]
    early, late = facts_of(tmp_path, started, error), facts_of(tmp_path, started, *steps, error)

    assert timing_of(early, early.events_of("n.ibwc")[0]) is EventTiming.FIRST_USE
    assert timing_of(late, late.events_of("n.ibwc")[0]) is EventTiming.RUNNING


def test_a_bar_spans_the_limit_only_when_it_stands_there(tmp_path: Path) -> None:
    waiting = [timeout(rank, 2, at="08:53:20", limit_ms=1_800_000) for rank in (1, 2, 3)]
    there = facts_of(tmp_path, "Map:   9%|#  | 280000/2969526 [29:55<4:48:08, 155.57 examples/s]", *waiting)
    short = facts_of(tmp_path, "Map:   9%|#  | 280000/2969526 [09:55<4:48:08, 155.57 examples/s]", *waiting)

    work = spanning_work(there)
    assert work is not None
    assert (work.rank, work.limit_s, work.limit_seen) == (0, 1800.0, True)
    assert spanning_work(short) is None


def test_only_calls_that_need_everybody_show_a_shift(tmp_path: Path) -> None:
    gathered = facts_of(
        tmp_path,
        timeout(0, 7, at="08:53:20", operation="ALLGATHER"),
        timeout(1, 9, at="08:53:20", operation="ALLGATHER"),
    )
    sent = facts_of(tmp_path, timeout(0, 7, at="08:53:20", operation="BROADCAST"), timeout(1, 9, at="08:53:20"))

    shift = find_sequence_offset(gathered)
    assert shift is not None
    assert shift.by == 2
    assert find_sequence_offset(sent) is None


def growing(tmp_path: Path, *step_s: float) -> StepSlowdown | None:
    """What is told of a loop whose steps took so long."""
    moment, lines = 0.0, []
    for number, took_s in enumerate(step_s):
        lines.append(f"2026-05-04 08:{int(moment // 60):02d}:{moment % 60:06.3f} step {number} loss 2.0")
        moment += took_s
    return step_slowdown(facts_of(tmp_path, *lines))


def test_steps_that_take_longer_and_longer_are_told_since_when(tmp_path: Path) -> None:
    found = growing(tmp_path, *[0.5] * 60, *(0.5 + number * 0.03 for number in range(60)))

    assert found is not None
    assert 60 <= found.since_step <= 80


def test_other_programs_make_steps_uneven_before_they_grow(tmp_path: Path) -> None:
    uneven = [0.19] * 11 + [0.26, 0.21] * 5 + [0.25] + [0.17, 0.19] * 5 + [0.18] * 12

    found = growing(tmp_path, *uneven, 0.8, *[1.4] * 12)

    assert found is not None
    assert (round(found.before_s, 1), round(found.now_s, 1)) == (0.2, 1.4)
    assert abs(found.since_step - len(uneven)) <= 3


def test_steps_that_were_slow_for_a_while_in_between_do_not_grow(tmp_path: Path) -> None:
    assert growing(tmp_path, *[0.2] * 15, *[1.4] * 12, *[0.2] * 15, *[1.4] * 12) is None


def test_steps_may_be_slower_at_first_than_later(tmp_path: Path) -> None:
    """As on a machine that was busy with something else when they began."""
    found = growing(tmp_path, *[0.35] * 24, *[0.2] * 30, *[1.4] * 20)

    assert found is not None
    assert (found.before_s, found.now_s) == (pytest.approx(0.2, rel=1e-3), pytest.approx(1.4))
    assert 52 <= found.since_step <= 56
    assert growing(tmp_path, *[0.35] * 24, *[0.2] * 30, *[0.4] * 20) is None
    assert growing(tmp_path, *[0.35] * 24, *[1.4] * 24, *[0.3] * 24, *[1.0] * 24) is None
