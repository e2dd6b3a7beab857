"""Whatever a rank does, the watch over it ends, and no process is left."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from unhang.check.probe import forked_ranks
from unhang.check.probe.forked_ranks import run_ranks
from unhang.check.probe.probe_jobs import JobOutcome, ProbeJob, StepReport, connect_step
from unhang.check.probe_results.probe_results import ProbeStep

Report = Callable[[StepReport], None]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked_ranks, "GRACE_S", 0.2)


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


SHORT_S = 1.5
"""Limit of a step that nobody finishes; whoever does finish has so long, on a busy machine too."""
ENDLESS_S = 600
"""So long a rank is stuck, longer than a test may take; nobody waits for it."""


def run(
    work: Callable[[int, Report], None], ranks: int = 2, *, limit_s: float = 30.0, whole_s: float = 60.0
) -> JobOutcome:
    before = children()
    lines = run_ranks(range(ranks), work, limit_s=limit_s, whole_s=whole_s)
    assert children() <= before
    everyone = (tuple(range(ranks)),)
    steps = (connect_step(everyone), ProbeStep("all-reduce", "world", everyone, 4096))
    return JobOutcome(ProbeJob(1, "gloo", everyone, steps, limit_s), lines)


def test_all_ranks_that_finish_leave_nothing_to_blame() -> None:
    def work(rank: int, report: Report) -> None:
        for step in (0, 1):
            report(StepReport(rank, step, begun=True))
            report(StepReport(rank, step, call_s=0.1 * (rank + 1)))

    outcome = run(work)

    assert [step.failed for step in outcome.steps] == [False, False]
    assert outcome.steps[1].call_s == pytest.approx(0.2)
    assert outcome.failed_islands == ()


def test_a_rank_that_never_comes_back_is_ended_and_named() -> None:
    def work(rank: int, report: Report) -> None:
        report(StepReport(rank, 0, begun=True))
        if rank == 1:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            time.sleep(ENDLESS_S)
        report(StepReport(rank, 0))

    outcome = run(work, limit_s=SHORT_S)

    assert outcome.steps[0].stuck == (1,)
    assert outcome.steps[0].finished == (0,)
    assert outcome.failed_islands == ((0, 1),)


def test_a_stopped_rank_is_ended_too() -> None:
    def work(rank: int, report: Report) -> None:
        report(StepReport(rank, 0, begun=True))
        os.kill(os.getpid(), signal.SIGSTOP)

    outcome = run(work, limit_s=SHORT_S)

    assert outcome.steps[0].stuck == (0, 1)


@pytest.mark.parametrize("number", [signal.SIGBUS, signal.SIGKILL])
def test_a_rank_that_dies_in_a_step_says_by_which_signal(number: signal.Signals) -> None:
    def work(rank: int, report: Report) -> None:
        report(StepReport(rank, 0, begun=True))
        if rank == 0:
            faulthandler.disable()
            os.kill(os.getpid(), number)
        report(StepReport(rank, 0))

    outcome = run(work)

    assert outcome.steps[0].stuck == (0,)
    assert number.name in outcome.steps[0].error


def test_who_waits_and_who_never_came_are_told_apart() -> None:
    def work(rank: int, report: Report) -> None:
        report(StepReport(rank, 0, begun=True))
        report(StepReport(rank, 0))
        if rank:
            report(StepReport(rank, 1, begun=True))
            report(StepReport(rank, 1, error="timed out"))

    outcome = run(work, ranks=3)

    assert outcome.steps[1].stuck == (1, 2)
    assert outcome.steps[1].absent == (0,)


def test_a_step_cut_off_by_the_whole_is_nobodys_fault() -> None:
    def work(rank: int, report: Report) -> None:
        report(StepReport(rank, 0, begun=True))
        report(StepReport(rank, 0))
        report(StepReport(rank, 1, begun=True))
        time.sleep(ENDLESS_S)

    outcome = run(work, whole_s=SHORT_S)

    assert [step.operation for step in outcome.steps] == ["connect"]
    assert not outcome.steps[0].failed


def test_a_rank_that_breaks_before_its_first_step_is_no_mystery() -> None:
    def work(rank: int, report: Report) -> None:
        raise ValueError("boom")

    outcome = run(work)

    assert outcome.steps[0].stuck == (0, 1)
    assert "boom" in outcome.steps[0].error
    assert outcome.failed_islands == ((0, 1),)


def test_what_nccl_warned_of_last_is_the_reason() -> None:
    def work(rank: int, report: Report) -> None:
        report(StepReport(rank, 0, begun=True))
        if rank == 1:
            os.write(1, b"h1:7:9 [1] misc/socket.cc:484 NCCL WARN socketProgress: Connection closed\nmore\n")
            time.sleep(ENDLESS_S)
        report(StepReport(rank, 0))

    outcome = run(work, limit_s=SHORT_S)

    assert (outcome.steps[0].stuck, outcome.steps[0].error) == ((1,), "socketProgress: Connection closed")
