"""Steps that slow down, from the lines of many programs: since when, how much; and what only looks like it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.facts.logs.test_log_facts import facts_of
from unhang.diagnosis.diagnose import diagnose
from unhang.facts.pace.step_slowdown import StepSlowdown, step_slowdown
from unhang.findings import Certainty, Status
from unhang.knowledge.reasoning_rows import causes_that

START = datetime(2026, 5, 4, 8, tzinfo=timezone.utc)
Format = Callable[[int, float, float], str]


def logged(line: Format, durations: Sequence[float], *, every: int = 1) -> Iterator[str]:
    """One line every ``every`` steps: ``line`` is given the step, its duration and the seconds since the start."""
    now = 0.0
    for step, took_s in enumerate(durations, start=1):
        now += took_s
        if step % every == 0:
            yield line(step, took_s, now)


def stamp(now: float) -> str:
    return (START + timedelta(seconds=now)).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]


def clock(now: float) -> str:
    hours, rest = divmod(int(now), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60:02d}:{rest % 60:02d}"


def bar(step: int, took_s: float, now: float) -> str:
    return f"Training:  {step // 25}%|███▍      | {step}/2500 [{clock(now)}<1:10:00, {took_s:5.2f}s/it, loss=2.31]"


FORMATS: dict[str, tuple[Format, int]] = {
    "stamps": (lambda step, took, now: f"{stamp(now)} INFO step {step} loss 2.31", 1),
    "torchtitan": (
        lambda step, took, now: (
            f"[rank0]:[titan] {stamp(now)} - root - INFO - step: {step:2}  loss:  7.8812  memory: 38.19GiB(40.2%)  "
            f"tps: {round(16384 / took):,}  tflops: {400 / took:.2f}  mfu: {40 / took:.2f}%"
        ),
        10,
    ),
    "tqdm, a step a line": (bar, 1),
    "tqdm, now and then": (bar, 10),
    "step of, time a step": (lambda step, took, now: f"Step: {step}/2500 | loss 2.31 | time/step: {took:.3f}s", 10),
    "seconds before their unit": (lambda step, took, now: f"step {step}: loss 2.31, {took:.2f} s/step", 10),
    "nanoGPT": (lambda step, took, now: f"iter {step}: loss 2.3100, time {took * 1000:.2f}ms, mfu 31.02%", 10),
    "Megatron": (
        lambda step, took, now: (
            f" iteration {step:8d}/    2500 | consumed samples: {step * 64:12d} | elapsed time per iteration (ms): "
            f"{took * 1000:.1f} | learning rate: 1.5E-04 | global batch size:    64 | lm loss: 2.31E+00 |"
        ),
        10,
    ),
    "a clock of its own": (lambda step, took, now: f"step {step} loss 2.31 time: {now:.1f}", 10),
    "Trainer with stamps": (
        lambda step, took, now: f"{stamp(now)} {{'loss': 2.31, 'grad_norm': 1.02, 'epoch': {step / 2500:.2f}}}",
        10,
    ),
    "Trainer with step times": (
        lambda step, took, now: f"{{'loss': 2.31, 'grad_norm': 1.02, 'step_time': {took:.3f}, 'epoch': 0.7}}",
        10,
    ),
}


def noisy(durations: Sequence[float], share: float = 0.05) -> list[float]:
    draw = random.Random(7)
    return [took_s * draw.uniform(1 - share, 1 + share) for took_s in durations]


def found(tmp_path: Path, name: str, durations: Sequence[float]) -> StepSlowdown | None:
    line, every = FORMATS[name]
    return step_slowdown(facts_of(tmp_path, *logged(line, durations, every=every)))


@pytest.mark.parametrize("name", FORMATS)
def test_the_last_tenth_of_a_log_is_six_times_as_slow(tmp_path: Path, name: str) -> None:
    slower = found(tmp_path, name, noisy([2.0] * 1800 + [12.0] * 189))

    assert slower is not None
    counted = 10 if name.startswith("Trainer") else 1
    assert abs(slower.since_step * counted - 1800) <= 30
    assert slower.times == pytest.approx(6, rel=0.1)


@pytest.mark.parametrize("name", FORMATS)
def test_a_gradual_slow_down_is_dated_near_its_beginning(tmp_path: Path, name: str) -> None:
    slower = found(tmp_path, name, noisy([2.0] * 1000 + [2.0 + number * 0.02 for number in range(800)]))

    assert slower is not None
    counted = 10 if name.startswith("Trainer") else 1
    assert 1000 <= slower.since_step * counted <= 1300
    assert slower.times == pytest.approx(9, rel=0.15)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "durations",
    [
        pytest.param([2.0] * 1989, id="one pace"),
        pytest.param([2.0] * 1700 + [300.0] + [2.0] * 288, id="one slow step"),
        pytest.param([2.0 if step % 100 else 120.0 for step in range(1, 1990)], id="an evaluation every 100 steps"),
        pytest.param([2.0 if step % 10 else 30.0 for step in range(1, 1990)], id="an evaluation every 10 steps"),
        pytest.param([2.0 if step % 400 < 380 else 9.0 for step in range(2, 2000)], id="slow for a while, again"),
        pytest.param([12.0] * 200 + [2.0] * 1789, id="a warm-up"),
        pytest.param([2.0] * 900 + [12.0] * 200 + [2.0] * 889, id="a slow stretch that is over"),
        pytest.param([2.0] * 1985 + [12.0] * 4, id="too few to tell"),
    ],
)
def test_what_is_no_slow_down(tmp_path: Path, name: str, durations: list[float]) -> None:
    assert found(tmp_path, name, noisy(durations)) is None


def test_the_log_that_simply_ends_is_slow_and_says_what_it_cannot_tell(tmp_path: Path) -> None:
    line, every = FORMATS["stamps"]

    verdict = diagnose(facts_of(tmp_path, *logged(line, [2.0] * 1800 + [12.0] * 189, every=every)))
    told = str(verdict.findings[0].summary)

    assert verdict.status is Status.SLOW
    assert verdict.findings[0].certainty is Certainty.LIKELY
    assert "steps take 6 times as long since about step 1801: 12 s instead of 2 s" in told
    assert not verdict.differential, "counted were stalls, not jobs that slow down"
    assert "how the job ended" in [str(gap.what) for gap in verdict.not_checked]


def test_behind_a_limit_that_passed_the_slow_down_is_kept_and_narrows_the_candidates(tmp_path: Path) -> None:
    line, every = FORMATS["torchtitan"]
    steps = [*logged(line, [2.0] * 1800 + [12.0] * 189, every=every)]
    limit = (
        "[rank1]:[E504 09:40:09.922386 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=23411, OpType=_ALLGATHER_BASE, NumelIn=262675456, NumelOut=1050701824, "
        "Timeout(ms)=100000) ran "
        "for 138021 milliseconds before timing out."
    )

    slowed, stopped = (diagnose(facts_of(tmp_path, *lines)) for lines in ([*steps, limit], [*steps[:150], limit]))

    because = " ".join(map(str, slowed.findings[0].because))
    assert slowed.status is Status.HANG
    assert "6 times as long since about step 1801" in because
    assert "the limit in force is 100 s" in because
    assert {candidate.cause for candidate in slowed.differential} <= causes_that("work", "slows-first")
    assert not {candidate.cause for candidate in stopped.differential} <= causes_that("work", "slows-first")
