# ruff: noqa: E501 - log lines are as long as they are
"""Steps and bars, last words, times."""

from __future__ import annotations

import io
from datetime import datetime, timezone

import pytest

from unhang.evidence.items import LogReading
from unhang.evidence.logs import read_log
from unhang.evidence.logs.lines.timestamps import TimestampReader


def read(text: str, **known: object) -> LogReading:
    return read_log(io.BytesIO(text.encode()), source="job.log", **known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "label", "number", "total", "printed_s"),
    [
        ("Tokenize:  47%|████▋     | 1695000/3634744 [30:09<33:25, 967.30 examples/s]", "Tokenize", 1695000, 3634744, 1809.0),
        (" 50%|█████     | 156/312 [09:12<09:11,  3.53s/it]", "bar", 156, 312, 552.0),
        ("Epoch 12:  50%|█████     | 156/312 [1:09:12<09:11,  3.53s/it, loss=0.3]", "Epoch", 156, 312, 4152.0),
        ("files: 12it [00:10,  1.20it/s]", "files", 12, None, 10.0),
        ("step: 12 loss 0.31", "step", 12, None, None),
        ("[titan] 2026-03-14 00:51:20,000 - root - INFO - step: 2680  loss:  3.77031  mfu: 12.05%", "step", 2680, None, None),
        ("{'step': 40, 'loss': 0.3}", "step", 40, None, None),
        ("global_step=1,200 lr=0.1", "global_step", 1200, None, None),
        ("Epoch 3 [20/500] loss 6.101", "step of epoch", 20, 500, None),
        ("Epoch: [0][  40/5004]\tTime  2.113 ( 2.240)\tLoss 6.9", "step of epoch", 40, 5004, None),
        (" iteration    43680/  311541 | elapsed time per iteration (ms): 25593.4 | lr", "iteration", 43680, 311541, 25.5934),
        (" iteration 45000/ 115311 | elapsed time per iteration (s): 111.00 | lr", "iteration", 45000, 115311, 111.0),
        ("<epoch: 31, iter:  79,800, lr:1.964e-05> loss: 3.8e-02", "iter", 79800, None, None),
        ("2021-12-14 15:29:16,670 - mmdet - INFO - Epoch [1][50/7330]\tlr: 1.9e-03, time: 1.113", "step of epoch", 50, 7330, 1.113),
        ("[epoch 18], [iter 370 / 371], [train main loss 0.214112]", "iter", 370, 371, None),
        ("Epoch 3/10", "epoch", 3, 10, None),
        ("evaluating: 50/70 batches", "evaluating", 50, 70, None),
    ],
)  # fmt: skip
def test_steps_are_read_in_every_usual_form(
    line: str, label: str, number: int, total: int | None, printed_s: float | None
) -> None:
    (progress,) = read(line + "\n").progress
    assert (progress.label, progress.last_step, progress.total) == (label, number, total)
    assert [seconds for _, seconds in progress.printed] == ([pytest.approx(printed_s)] if printed_s else [])


@pytest.mark.parametrize("line", ["loaded 12 files", "lr: 0.5 loss 0.3", "INFO stepping back", "version 1.2.3"])
def test_other_lines_are_no_steps(line: str) -> None:
    assert read(line + "\n").progress == ()


def test_steps_are_folded_per_rank_and_label() -> None:
    reading = read("".join(f"[rank{r}]: 2026-11-21 10:00:{s:02d} step: {s}\n" for s in range(50) for r in (0, 1)))
    assert [(item.rank, item.first_step, item.last_step) for item in reading.progress] == [(0, 0, 49), (1, 0, 49)]
    first = reading.progress[0]
    assert first.last_time_s == first.first_time_s + 49  # type: ignore[operator]
    assert len(first.recent) == 50
    assert (first.source.line, first.last_line) == (1, 99)


def test_a_bar_that_starts_over_is_a_new_run_and_keeps_its_last_state() -> None:
    bar = "".join(f"\rval:  5%|x| {n}/20 [00:{n:02d}<00:10,  1.9it/s]" for n in (*range(21), 0, 1, 2))
    first, second = read(bar).progress
    assert (first.last_step, first.elapsed_s, second.last_step, second.elapsed_s) == (20, 20.0, 2, 2.0)


def test_trainer_lines_without_a_step_are_counted() -> None:
    (progress,) = read("{'loss': 0.8, 'learning_rate': 1e-05, 'epoch': 0.1}\n" * 7).progress
    assert (progress.label, progress.last_step, progress.unit) == ("trainer log", 7, "log")


def test_the_last_ordinary_line_of_a_rank_is_no_stack_and_no_banner() -> None:
    reading = read(
        "[rank0]: saving checkpoint\n[rank0]: ==========\n[rank0]: frame #3: c10d::foo() + 0x1 (0x2 in /lib/x.so)\n"
        "[rank1]: waiting\n"
    )
    assert [(item.rank, item.text, item.source.line) for item in reading.last_lines] == [
        (0, "saving checkpoint", 1),
        (1, "waiting", 4),
    ]


def at(*parts: int) -> float:
    return datetime(*parts, tzinfo=timezone.utc).timestamp()  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-21T10:30:00.500Z started", at(2026, 11, 21, 10, 30) + 0.5),
        ("2026-11-21T10:30:00+08:00 started", at(2026, 11, 21, 2, 30)),
        ("[2026-11-21 10:30:00,250] [INFO] x", at(2026, 11, 21, 10, 30) + 0.25),
        ("2026/11/21 10:30:00 x", at(2026, 11, 21, 10, 30)),
        ("26-11-21 10:30:00.118 - INFO: x", at(2026, 11, 21, 10, 30) + 0.118),
        ("  time      : 2026-11-21_10:30:00", at(2026, 11, 21, 10, 30)),
        ("11/21/2026 10:30:00 - INFO - x", at(2026, 11, 21, 10, 30)),
        ("[rank1]:[E114 13:30:37.5 ProcessGroupNCCL.cpp:607] x", at(2026, 1, 14, 13, 30, 37) + 0.5),
        ("[rank1]:[E1121 13:30:37.927000676 ProcessGroupNCCL.cpp:607] x", at(2026, 11, 21, 13, 30, 37) + 0.927000676),
        ("W0627 16:58:27.963000 2813240 torch/x.py:900] x", at(2026, 6, 27, 16, 58, 27) + 0.963),
        ("Jul 18 18:19:16 node1 kernel: x", at(2026, 7, 18, 18, 19, 16)),
        ("INFO 08-30 11:02:11 [loggers.py:248] x", at(2026, 8, 30, 11, 2, 11)),
        ("no time here 12:30", None),
        ("100%|x| 100/100 [00:12:00<00:00]", None),
        ("2026-13-41 10:00:00 x", None),
    ],
)
def test_times_are_read_in_every_usual_form(text: str, expected: float | None) -> None:
    assert TimestampReader(year=2026).time_of(text) == (pytest.approx(expected) if expected is not None else None)


def test_a_date_without_a_year_takes_the_year_of_the_log_and_never_the_future() -> None:
    dated = read(
        "2024-05-01 10:00:00 start\n[E502 10:00:00.0 x.cpp:1] Address already in use\n", modified_s=at(2026, 1, 3)
    )
    assert dated.events[0].time_s == at(2024, 5, 2, 10)
    undated = read("[E1231 10:00:00.0 x.cpp:1] RuntimeError: Address already in use\n", modified_s=at(2026, 1, 3))
    assert undated.events[0].time_s == at(2025, 12, 31, 10)
