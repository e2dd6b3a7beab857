"""Logs nobody would write: they cost time and memory in proportion at most, and never a crash."""

from __future__ import annotations

import io
import re
import tracemalloc
from pathlib import Path
from typing import BinaryIO

import pytest

from unhang.evidence.items import LogReading
from unhang.evidence.logs import read_log
from unhang.evidence.logs.scan.regions_to_read import first_in_each_line

TIMEOUT = (
    b"[rank3]:[E1121 10:30:00.500000000 ProcessGroupNCCL.cpp:685] [Rank 3] Watchdog caught collective operation "
    b"timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600066 "
    b"milliseconds before timing out."
)
TRACEBACK = b'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    f()\nValueError: shard %d\n'
CRASH = b'Traceback (most recent call last):\n  File "b.py", line 9, in g\n    g()\nKeyError: last\n'
STEPS = b"".join(b"[rank%d]: step %d/9000 loss 2.5\n" % (rank, step) for step in range(40) for rank in range(512))


class Endless(io.RawIOBase):
    """``piece`` over and over, ``size`` bytes in all, without holding them."""

    def __init__(self, piece: bytes, size: int, end: bytes = b"") -> None:
        super().__init__()
        self._piece, self._left, self._end = piece, size, end

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._left <= 0:
            end, self._end = self._end, b""
            return end
        count = max(1, size // len(self._piece))
        self._left -= count * len(self._piece)
        return self._piece * count


def read(stream: bytes | BinaryIO | io.RawIOBase) -> LogReading:
    return read_log(io.BytesIO(stream) if isinstance(stream, bytes) else stream, source="job.log")  # type: ignore[arg-type]


def peak_of(stream: io.RawIOBase) -> tuple[LogReading, float]:
    tracemalloc.start()
    try:
        reading = read(stream)
        return reading, tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def test_a_line_of_a_hundred_megabytes_costs_no_memory_and_hides_nothing_behind_it() -> None:
    reading, mebibytes = peak_of(Endless(b"x" * 4096, 100 << 20, end=b"\n" + TIMEOUT + b"\n"))
    assert [event.kind for event in reading.events] == ["wd.timeout"]
    assert reading.lines == 2
    assert "1 lines longer than" in reading.unread[0].reason
    assert mebibytes < 40


def test_holes_of_zero_bytes_are_left_out() -> None:
    reading, mebibytes = peak_of(Endless(b"\0" * 4096, 64 << 20, end=TIMEOUT))
    assert [(event.kind, event.source.line) for event in reading.events] == [("wd.timeout", 1)]
    assert mebibytes < 40


def test_no_newline_at_the_end() -> None:
    reading = read(b"start\n" + TIMEOUT)
    assert (reading.lines, reading.events[0].source.line) == (2, 2)
    large = read(STEPS * 5 + TIMEOUT)
    assert large.lines == large.events[0].source.line == 40 * 512 * 5 + 1


def test_a_log_that_grows_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_bytes(STEPS * 3)
    with path.open("rb") as opened, path.open("ab") as other:

        class Growing(io.RawIOBase):
            grown = 0

            def read(self, size: int = -1) -> bytes:
                if self.grown < 20:
                    self.grown += 1
                    other.write(STEPS[: 1 << 17] if self.grown < 20 else b"\n" + TIMEOUT)
                    other.flush()
                return opened.read(size)

        reading = read(Growing())
    assert [event.kind for event in reading.events] == ["wd.timeout"]


def test_very_many_tracebacks_stay_bounded_and_do_not_hide_another_one() -> None:
    between = STEPS[: STEPS.index(b"\n", 300) + 1]
    flood = b"".join(TRACEBACK % number + between * (number % 3) for number in range(9_000))
    reading = read(flood + CRASH + STEPS * 12 + flood[: 4 << 20])
    kept = [traceback for traceback in reading.tracebacks if traceback.exception == "ValueError"]
    assert len(kept) <= 2048
    assert reading.folded["traceback"] > 6_000
    (crash,) = [traceback for traceback in reading.tracebacks if traceback.exception == "KeyError"]
    assert crash.source.line == flood.count(b"\n") + 1


def test_tracebacks_without_end_cost_no_memory() -> None:
    reading, mebibytes = peak_of(Endless(b"[rank3]: " + TRACEBACK.replace(b"\n", b"\n[rank3]: ") % 1 + b"\n", 2 << 20))
    assert reading.folded["traceback"] > 7_000
    assert mebibytes < 60


def test_in_front_of_trouble_everybody_is_known_to_have_gone_on() -> None:
    rank_5 = b"".join(b"[rank5]: " + line + b"\n" for line in (TRACEBACK % 7).splitlines())
    end = b"".join(TIMEOUT.replace(b"ank3", b"ank%d" % rank) + b"\n" for rank in range(512)) * 40
    reading = read(STEPS * 9 + rank_5 + STEPS + end)
    (raised,) = reading.tracebacks
    last = max(run.last_line for run in reading.progress if run.rank == 5)
    assert last > (raised.source.line or 0)
    assert {run.last_step for run in reading.progress if run.last_line > (raised.source.line or 0)} == {39}
    assert len({run.rank for run in reading.progress if run.last_line > (raised.source.line or 0)}) == 512


def test_a_large_log_has_the_same_events_at_the_same_lines_as_its_pieces() -> None:
    parts = [STEPS * 3, TIMEOUT + b"\n", STEPS * 4, TRACEBACK % 1, STEPS * 9, CRASH, STEPS * 5]
    reading = read(b"".join(parts))
    starts = [1 + b"".join(parts[:index]).count(b"\n") for index in range(len(parts))]
    assert [event.source.line for event in reading.events if event.kind == "wd.timeout"] == [starts[1]]
    assert [traceback.source.line for traceback in reading.tracebacks] == [starts[3], starts[5]]
    assert reading.lines == starts[6] + STEPS.count(b"\n") * 5 - 1
    last = {run.rank: run.last_step for run in sorted(reading.progress, key=lambda run: run.last_line)}
    assert (len(last), set(last.values())) == (512, {39})


def test_of_many_equal_literals_in_one_line_the_first_is_enough() -> None:
    data = b"Ran 1Ran 1 Killed Ran 1\nRan 1 Ran 1\nKilled\nKilled"
    places = [(match.start(), match[0]) for match in re.finditer(rb"Ran 1|Killed", data)]
    assert first_in_each_line(data, places) == [
        (0, b"Ran 1"),
        (11, b"Killed"),
        (24, b"Ran 1"),
        (36, b"Killed"),
        (43, b"Killed"),
    ]


@pytest.mark.parametrize("literal", [b"Python v3.", b"Traceback (most recent call last)", b"Ran 1"])
def test_lines_full_of_literals_hide_no_message(literal: bytes) -> None:
    line = literal * (300_000 // len(literal)) + b"\n"
    reading = read(line * 4 + TIMEOUT + b"\n" + line * 4)
    assert [event.source.line for event in reading.events if event.kind == "wd.timeout"] == [5]


DIGITS = "9" * 100_000
"""So many that the square of them does not end before the limit of the test."""


@pytest.mark.parametrize(
    "line",
    [
        "step " + DIGITS + "it [",
        "step 1it [ " + DIGITS + "it [",
        "[E ProcessGroupNCCL.cpp:9] [Rank 1] NCCL error: timeout " + DIGITS + " [0] ",
    ],
)
@pytest.mark.timeout(60)
def test_a_line_of_digits_takes_no_longer_than_it_is_long(line: str) -> None:
    read((f"{line}\n" * 5).encode())
