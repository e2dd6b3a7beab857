"""Times, hosts and JSON that collectors put around every line of a log."""

# ruff: noqa: E501 - lines of logs are as long as programs print them

from __future__ import annotations

import io
import json

import pytest

from unhang.evidence.items import LogReading
from unhang.evidence.logs import read_log

WATCHDOG = (
    "[rank3]:[E1121 10:30:00.500000000 ProcessGroupNCCL.cpp:685] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600066 milliseconds before timing out."
)
LOG = [
    "step 410/1000 loss 2.114",
    "[rank1]: Traceback (most recent call last):",
    '[rank1]:   File "/srv/train.py", line 61, in train',
    "[rank1]:     loss.backward()",
    "[rank1]: ValueError: bad sample",
    WATCHDOG,
]


def read(lines: list[str]) -> LogReading:
    return read_log(io.BytesIO("".join(f"{line}\n" for line in lines).encode()), source="job.log", modified_s=1.8e9)


@pytest.mark.parametrize(
    "stamp",
    [
        "2026-11-21 10:31:07 ",
        "2026-11-21 10:31:07.123\t",
        "[2026-11-21 10:31:07] ",
        "2026-11-21T10:31:07+00:00 | ",
        "Nov 21 10:31:07 node-17 python3[4711]: ",
        "Nov 21 10:31:07 node-17 slurm-launch.sh[4711]: ",
        "10:31:07.123 ",
        "[10:31:07] ",
    ],
)
def test_the_stamp_of_a_viewer_is_no_part_of_the_line(stamp: str) -> None:
    reading = read([stamp + line for line in LOG])

    (timeout,) = [event for event in reading.events if event.kind == "wd.timeout"]
    assert timeout.rank == 3
    (traceback,) = reading.tracebacks
    assert (traceback.rank, traceback.exception, traceback.source.line) == (1, "ValueError", 2)
    assert [(run.last_step, run.total) for run in reading.progress] == [(410, 1000)]
    if stamp.startswith(("2026", "[2026", "Nov")):
        assert traceback.time_s is not None


def test_the_time_of_a_programs_own_logger_stays() -> None:
    reading = read([f"2026-11-21 10:0{minute}:00,120 INFO trainer: loading shard {minute}" for minute in range(9)])

    assert reading.last_lines[0].text.startswith("2026-11-21 10:08:00,120 INFO")
    assert reading.last_time_s is not None
    assert reading.first_time_s is not None
    assert reading.last_time_s - reading.first_time_s == 480


def packed(line: str) -> str:
    return json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-11-21T10:31:07.123456789Z"})


def test_json_of_a_container_runtime_is_unpacked() -> None:
    reading = read([packed(line) for line in LOG])

    (timeout,) = [event for event in reading.events if event.kind == "wd.timeout"]
    assert (timeout.rank, timeout.source.line) == (3, 6)
    assert timeout.text.startswith("[rank3]:[E1121") or "Watchdog caught" in timeout.text
    assert reading.tracebacks[0].exception == "ValueError"


def test_many_lines_in_one_record_keep_its_number() -> None:
    whole = json.dumps(
        {"message": "\n".join(LOG), "@timestamp": "2026-11-21T10:31:07Z", "kubernetes": {"pod_name": "p"}}
    )
    reading = read([packed("hello"), whole])

    assert {event.source.line for event in reading.events} == {2}
    assert reading.tracebacks[0].source.line == 2


def test_a_programs_own_json_is_left_alone() -> None:
    lines = [json.dumps({"step": step, "loss": 2.0, "message": "trained"}) for step in range(5)]

    assert read(lines).last_lines[0].text == lines[-1]


@pytest.mark.parametrize("line", ["{", '{"log": 3}', '{"log": "a"', "[" * 3000, '{"log": ' + "[" * 100_000, "{}"])
def test_what_only_looks_like_json_is_read_as_it_is(line: str) -> None:
    assert read([line, WATCHDOG]).events[0].kind == "wd.timeout"
