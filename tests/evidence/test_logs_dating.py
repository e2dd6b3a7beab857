"""When a stall began, from the lines alone."""

from __future__ import annotations

import io

from unhang.evidence.logs import read_log
from unhang.evidence.logs.dating import first_tracebacks, group_of, limit_s, waiting_since_s


def test_a_timeout_tells_its_limit_and_when_the_wait_began() -> None:
    reading = read_log(
        io.BytesIO(
            b"2026-11-21T10:40:00Z [rank3]:[E1121 10:40:00.0 ProcessGroupNCCL.cpp:685] [PG ID 0 PG GUID 7(dp) Rank 1] "
            b"Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=1, NumelOut=1,"
            b" Timeout(ms)=600000) ran for 601500 milliseconds before timing out.\n"
            b"TimeoutError: The client socket has timed out after 1800s while trying to connect to (h, 1).\n"
        ),
        source="job.log",
    )
    timeout, socket = reading.events
    assert timeout.time_s is not None
    assert limit_s(timeout) == 600
    assert waiting_since_s(timeout) == timeout.time_s - 601.5
    assert group_of(timeout) == "7"
    assert (limit_s(socket), waiting_since_s(socket), group_of(socket)) == (1800, None, None)


def test_tracebacks_stand_in_the_order_they_happened() -> None:
    def log(name: str, minute: int) -> bytes:
        time = f"2026-11-21T10:{minute:02d}:00Z "
        lines = ("Traceback (most recent call last):", '  File "a.py", line 1, in f', f"ValueError: {name}")
        return "".join(f"{time}{line}\n" for line in lines).encode()

    late = read_log(io.BytesIO(log("late", 30)), source="a.log")
    early = read_log(io.BytesIO(log("early", 10)), source="b.log")
    assert [item.message for item in first_tracebacks([late, early])] == ["early", "late"]
