from __future__ import annotations

import html
import io

import pytest

from unhang.evidence.logs import read_log
from unhang.evidence.logs.pastes import mend_paste

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
    assert mend_paste((WATCHDOG + "\nstep 1\n").encode()) is None
    assert mend_paste(b"x" * 80 + b"\n") is None
