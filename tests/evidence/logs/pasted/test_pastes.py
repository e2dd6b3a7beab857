from __future__ import annotations

import html
import io
import textwrap

import pytest

from unhang.evidence.logs import read_log
from unhang.evidence.logs.content.stacks_in_logs import LogStackReader
from unhang.evidence.logs.pasted.pastes import restore_paste

WATCHDOG = (
    "[E ProcessGroupNCCL.cpp:563] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1474236, "
    "OpType=_ALLGATHER_BASE, NumelIn=262675456, NumelOut=1050701824, Timeout(ms)=600000) ran for 600068 milliseconds "
    "before timing out."
)
TABLE = (
    "+-----------------------------------------------------------------------------------------+\n"
    "|   0  NVIDIA GeForce RTX 3090      On  |   00000000:10:00.0 Off |                  N/A |\n"
    "| 33%   54C    P2            150W /  450W |    1412MiB / 24564MiB |    100%      Default |\n"
)


def wrapped(text: str, width: int) -> str:
    return "\n".join(line[at : at + width] for line in text.split("\n") for at in range(0, len(line), width))


@pytest.mark.parametrize("width", [40, 57, 80, 100, 120])
def test_lines_broken_at_any_width_are_read_whole_and_cited_where_they_began(width: int) -> None:
    text = "my job hangs, help\n" + wrapped(WATCHDOG, width) + "\nthanks\n"
    reading = read_log(io.BytesIO(text.encode()), source="paste.txt")

    (event,) = [e for e in reading.events if e.kind == "wd.timeout"]
    assert event.values["position"] == 1474236
    assert event.values["elapsed_ms"] == 600068
    assert event.source.line == 2


def test_entities_of_web_pages_are_undone() -> None:
    text = html.escape("  1%|#    | 224/13945 [25:36<26:08:06, 10.46s/it]") + "\n"
    (progress,) = read_log(io.BytesIO(text.encode()), source="paste.txt").progress

    assert (progress.last_step, progress.total) == (224, 13945)


def test_tables_of_equal_width_stay_tables() -> None:
    kinds = [e.kind for e in read_log(io.BytesIO((TABLE * 4).encode()), source="smi.txt").events]

    assert kinds.count("look.gpuuse") == 4
    assert kinds.count("look.gpuname") == 4


def test_a_log_that_nobody_pasted_is_left_alone() -> None:
    assert restore_paste((WATCHDOG + "\nstep 1\n").encode()) is None
    assert restore_paste(b"x" * 80 + b"\n") is None


def test_lines_are_joined_where_the_log_rewrote_a_bar_in_place() -> None:
    bars = "\r".join(f"Training: {n}%|{'#' * n:<10}| {n}/100 [00:0{n}<01:00,  1.00it/s]" for n in range(1, 6))
    reading = read_log(io.BytesIO(wrapped(f"{bars}\n{WATCHDOG}\n[rank1]: {WATCHDOG}", 64).encode()), source="paste.txt")

    assert {e.values["elapsed_ms"] for e in reading.events if e.kind == "wd.timeout"} == {600068}
    assert [(run.label, run.first_step, run.last_step) for run in reading.progress] == [("Training", 1, 5)]


def test_bars_whose_carriage_returns_were_lost_are_read_one_by_one() -> None:
    bar = "Training: {percent}%|{filled:<10}| {n}/{total} [00:0{n}<01:00,  1.00it/s, loss=0.{n}]"
    steps = [(n, total) for n in range(1, 5) for total in (4, 6)]
    bars = [bar.format(percent=100 * n // total, filled="#" * n, n=n, total=total) for n, total in steps]
    wrapped_at_words = "\n".join(textwrap.wrap(" ".join(bars), 72, break_on_hyphens=False))

    for text in ("".join(bars), " ".join(bars), wrapped_at_words):
        progress = read_log(io.BytesIO(f"{text}\n".encode()), source="paste.txt").progress
        assert {(run.label, run.total): run.last_step for run in progress} == {("Training", 4): 4, ("Training", 6): 4}


@pytest.mark.parametrize("stamp", ["2026-11-21T10:30:02.125000000Z ", "2026-11-21 10:30:02\t", "[10:30:02.125] "])
def test_stacks_are_read_behind_the_times_of_a_collector(stamp: str) -> None:
    lines = [
        "[rank0]:Current thread 0x00007f79 (most recent call first):",
        '[rank0]:  File "/home/u/train.py", line 65 in log',
        '[rank0]:  File "/home/u/train.py", line 73 in <module>',
    ]
    listener = LogStackReader()
    content = "".join(f"{stamp}{line}\n" for line in ("[rank0]: step 1", *lines))
    read_log(io.BytesIO(content.encode()), source="pod.log", listener=listener)

    (dump,) = listener.stacks("pod.log", None)
    assert dump.rank == 0
    assert dump.source.line == 2
    assert [(frame.function, frame.line) for frame in dump.threads[0].frames] == [("log", 65), ("<module>", 73)]


def test_frames_of_faulthandler_are_joined_too() -> None:
    frames = [
        f'  File "/opt/conda/lib/python3.11/site-packages/torch/{"x" * n}.py", line {n} in call' for n in (9, 14, 19)
    ]
    listener = LogStackReader()
    content = wrapped("\n".join(["Current thread 0x00007f79 (most recent call first):", *frames]), 64)
    read_log(io.BytesIO(f"{content}\n".encode()), source="paste.txt", listener=listener)

    (dump,) = listener.stacks("paste.txt", None)
    assert [frame.line for frame in dump.threads[0].frames] == [9, 14, 19]
