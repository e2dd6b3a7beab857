"""Pastes as people make them: whatever a chat or an editor did to the lines, they say what the log said."""

# ruff: noqa: E501 - lines of logs are as long as programs print them

from __future__ import annotations

import html
import io
import textwrap

import pytest

from unhang.evidence.items import LogReading
from unhang.evidence.logs import read_log

LOG = [
    "2026-11-21 10:19:58,120 INFO trainer: step 410/1000 loss 2.114",
    (
        "[rank3]:[E1121 10:30:00.500000000 ProcessGroupNCCL.cpp:685] [Rank 3] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600066 milliseconds "
        "before timing out."
    ),
    (
        "[rank3]:[E1121 10:30:00.600000000 ProcessGroupNCCL.cpp:2252] [PG ID 0 PG GUID 0(default_pg) Rank 3]  failure "
        "detected by watchdog at work sequence id: 41 PG status: last enqueued work: 43, last completed work: 40"
    ),
    "Traceback (most recent call last):",
    '  File "/home/someone/project/training/loop.py", line 118, in train_one_epoch',
    "    loss = model(batch)",
    '  File "/home/someone/project/training/model.py", line 64, in forward',
    "    return self.layers(x)",
    "RuntimeError: the size of tensor a (4096) must match the size of tensor b (8192) at non-singleton dimension 3",
    "h1:3505836:3505982 [0] misc/socket.cc:59 NCCL WARN socketProgress: Connection closed by remote peer gpu-a56<60359>",
]


def read(text: str | bytes) -> LogReading:
    content = text.encode() if isinstance(text, str) else text
    return read_log(io.BytesIO(content), source="job.log")


def expect_all(reading: LogReading, lines: list[int]) -> None:
    """``lines``: where each line of LOG begins in the paste."""
    found = {event.kind: event for event in reading.events}
    assert (found["wd.timeout"].rank, found["wd.timeout"].source.line) == (3, lines[1])
    assert found["wd.timeout"].values["elapsed_ms"] == 600_066
    assert found["wd.fail"].source.line == lines[2]
    assert found["wd.fail"].values["last_completed"] == 40
    assert (found["n.sock"].values["peer"], found["n.sock"].source.line) == ("gpu-a56<60359>", lines[9])
    (traceback,) = reading.tracebacks
    assert traceback.source.line == lines[3]
    assert [(frame.line, frame.function) for frame in traceback.frames] == [(64, "forward"), (118, "train_one_epoch")]
    assert traceback.exception == "RuntimeError"
    assert traceback.message.startswith("the size of tensor a (4096) must match")
    assert [(run.last_step, run.total, run.source.line) for run in reading.progress] == [(410, 1000, lines[0])]


def cut(line: str, width: int) -> list[str]:
    return [line[at : at + width] for at in range(0, len(line), width)]


def words(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, width, break_on_hyphens=False) or [line]


@pytest.mark.parametrize("width", [40, 56, 64, 72, 80, 96, 100, 120])
@pytest.mark.parametrize("breaker", [cut, words])
def test_broken_lines_are_whole_again_and_keep_their_first_number(breaker: object, width: int) -> None:
    pieces = [breaker(line, width) for line in LOG]  # type: ignore[operator]
    starts = [1 + sum(len(earlier) for earlier in pieces[:index]) for index in range(len(pieces))]
    reading = read("\n".join(piece for each in pieces for piece in each) + "\n")
    expect_all(reading, starts)
    assert reading.lines == sum(map(len, pieces))


def test_one_message_broken_once_is_whole_again() -> None:
    (event,) = read("\n".join([*cut(LOG[1], 150)[:1], LOG[1][150:]])).events
    assert (event.kind, event.values["limit_ms"]) == ("wd.timeout", 600_000)


PASTES = {
    "entities": [html.escape(line) for line in LOG],
    "quoted": ["> " + line for line in LOG],
    "quoted twice": ["> > " + line for line in LOG],
    "quoted as entities": ["&gt; " + html.escape(line) for line in LOG],
    "bullets": ["- " + line for line in LOG],
    "stars": ["* " + line for line in LOG],
    "numbered list": [f"{number}. {line}" for number, line in enumerate(LOG, 1)],
    "indented": ["    " + line for line in LOG],
    "editor": [f"{number:5d} | {line}" for number, line in enumerate(LOG, 388)],
    "cat -n": [f"{number:6d}\t{line}" for number, line in enumerate(LOG, 1)],
    "vim": [f"{number:4d} {line}" for number, line in enumerate(LOG, 97)],
    "grep -n": [f"{number * 7}:{line}" for number, line in enumerate(LOG, 3)],
    "windows": [line + "\r" for line in LOG],
    "hard spaces": [line.replace(" ", "\u00a0") for line in LOG],
    "zero width": ["\u200b" + line.replace("Rank", "Ra\u200bnk").replace("Watch", "Wa\ufefftch") for line in LOG],
    "curly quotes": [line.replace('"', "\u201c", 1).replace('"', "\u201d", 1) for line in LOG],
}


@pytest.mark.parametrize("how", PASTES)
def test_marks_of_chats_and_editors_are_taken_off(how: str) -> None:
    expect_all(read("\n".join(PASTES[how])), list(range(1, 11)))


@pytest.mark.parametrize("encoding", ["gb18030", "utf-16", "utf-16-le", "utf-8-sig"])
def test_chinese_words_around_a_broken_paste(encoding: str) -> None:
    pieces = [piece for line in LOG for piece in cut(line, 80)]
    reading = read("\r\n".join(["大佬们帮忙看下这个报错,多卡训练卡死", *pieces]).encode(encoding))
    assert {"wd.timeout", "wd.fail", "n.sock"} <= {event.kind for event in reading.events}
    assert len(reading.tracebacks[0].frames) == 2


def test_a_code_fence_is_no_last_word() -> None:
    reading = read("\n".join(["```log", *LOG[:3], "loading data", "```"]))
    assert [line.text for line in reading.last_lines] == ["loading data"]
    assert reading.events[0].source.line == 3


def test_lost_prefixes_leave_the_rank_of_the_default_group() -> None:
    reading = read("\n".join(line.replace("[rank3]:", "") for line in LOG[1:3]))
    assert {(event.kind, event.rank) for event in reading.events} == {("wd.timeout", 3), ("wd.fail", 3)}


def test_three_lines_are_enough() -> None:
    reading = read("\n".join(LOG[3:6]) + "\n" + LOG[8])
    assert reading.tracebacks[0].exception == "RuntimeError"


def test_labels_of_ranks_are_no_line_numbers() -> None:
    reading = read("".join(f"{rank}: step 12 done\n" for rank in range(8)))
    assert sorted(run.rank for run in reading.progress if run.rank is not None) == list(range(8))


def test_equal_lines_and_tables_of_one_width_are_not_joined() -> None:
    said = "[Gloo] Rank 0 is connected to 7 peer ranks. Expected number of connected peer ranks is : 7"
    table = [
        "+" + "-" * 60 + "+",
        "| Processes:" + " " * 49 + "|",
        "|    0   N/A  N/A     12345      C   python" + " " * 20 + "|",
    ]
    reading = read("\n".join([said] * 4 + table + ["x" * 62, "and so on"]))
    assert reading.lines == 9
    assert [line.text for line in reading.last_lines] == ["and so on"]
    assert len([e for e in reading.events if e.kind.startswith("g")]) in (0, 4)


def test_an_ordinary_log_is_not_touched() -> None:
    from unhang.evidence.logs.pasted.pastes import restore_paste

    assert restore_paste(("\n".join(LOG) + "\n").encode()) is None
