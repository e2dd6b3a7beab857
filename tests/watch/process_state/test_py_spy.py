"""Looks at a process that runs are repeated until one is whole."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from unhang.evidence.stacks import read_stacks
from unhang.evidence.stacks.torn_stacks import is_torn
from unhang.watch.process_state.py_spy import (
    TRIES,
    complete_from_record,
    completeness,
    dump_stacks,
    find_py_spy,
    retry_until_complete,
)
from unhang.watch.process_state.stack_collection import sample_process as look_from_outside
from unhang.wire.record_views import RecordView

# Frames of many sizes, pushed and popped all the time: what is read of one has another one's content a moment later.
BUSY = """
for size in range(12):
    names = ", ".join(f"v{size}_{i}" for i in range(size * 3 + 1))
    body = f"{names.replace(',', ' =')} = n; return sum(map(calls[(n * 7 + {size}) % 12], [n - 1])) if n > 0 else n"
    exec(f"def f{size}(n): {body}", globals())
calls = [globals()[f"f{size}"] for size in range(12)]
print("up", flush=True)
while True:
    for n in range(2, 4): calls[n % 12](n)
"""


@pytest.fixture
def busy() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield child.pid
        finally:
            child.kill()


def test_the_first_whole_look_is_taken() -> None:
    looks = iter([2.0, math.inf, 3.0])

    assert retry_until_complete(lambda _: next(looks), lambda seen: seen, 60.0) == math.inf
    assert next(looks) == 3.0


def test_of_torn_looks_the_one_that_saw_most_is_taken() -> None:
    asked = []

    def look(left_s: float) -> float:
        asked.append(left_s)
        return {1: 5.0}.get(len(asked), float(-len(asked)))

    assert retry_until_complete(look, lambda seen: seen, 60.0) == 5.0
    assert len(asked) == TRIES
    assert asked == sorted(asked, reverse=True)


def test_the_limit_is_that_of_all_tries_together() -> None:
    asked = []

    def slow(left_s: float) -> float:
        asked.append(left_s)
        time.sleep(0.02)
        return 1.0

    retry_until_complete(slow, lambda seen: seen, 0.01)
    assert asked == [0.01]


def test_what_would_end_the_same_way_is_not_tried_again() -> None:
    assert completeness(None, final=True) == math.inf
    assert completeness(None) < 0


@pytest.mark.skipif(not sys.platform.startswith("linux") or find_py_spy() is None, reason="needs py-spy and /proc")
def test_a_process_in_full_flight_is_seen_whole(busy: int) -> None:
    # one look at it is torn or fails in one of three: 17 whole ones of 20 are no luck
    looks = [dump_stacks(busy, stopped=True, limit_s=60.0).text for _ in range(20)]
    dumps = [read_stacks(text.encode(), source="look", rank=None)[0] for text in looks if text is not None]
    assert sum(not is_torn(dump) for dump in dumps) >= 17

    seen = [look_from_outside(busy).dump for _ in range(5)]
    assert sum(dump is not None and not is_torn(dump) for dump in seen) >= 4


TORN = """Process 7: python -u train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 7 (active): "MainThread"
    Norm.forward (/home/u/model.py:242)
    Module._call_impl (/opt/torch/nn/modules/module.py:1789)
Thread 9 (idle): "writer"
    run (/home/u/writer.py:3)
    Thread._bootstrap (/usr/lib/threading.py:1002)
"""
RECORDED = RecordView(
    thread_id=7, stack="/home/u/model.py:80:attend\n/home/u/train.py:12:main\n/home/u/train.py:20:<module>\n"
)


def test_a_torn_look_is_made_whole_from_the_rank_s_own_record() -> None:
    whole = complete_from_record(TORN, RECORDED, 7)

    assert whole is not None
    dump = read_stacks(whole.encode(), source="rank_0.txt", rank=0)[0]
    assert dump.pid == 7
    assert not is_torn(dump)
    frames = {thread.name: [(f.function, f.file, f.line) for f in thread.frames] for thread in dump.threads}
    assert frames["MainThread"] == [
        ("attend", "/home/u/model.py", 80),
        ("main", "/home/u/train.py", 12),
        ("<module>", "/home/u/train.py", 20),
    ]
    assert frames["writer"][0] == ("run", "/home/u/writer.py", 3)


def test_a_whole_look_stays_and_another_thread_s_record_is_no_help() -> None:
    assert complete_from_record(TORN.replace("Module._call_impl", "<module>"), RECORDED, 7) is None
    assert complete_from_record(TORN, RecordView(thread_id=9, stack=RECORDED.stack), 7) is None
    assert complete_from_record(TORN, RecordView(thread_id=7), 7) is None
