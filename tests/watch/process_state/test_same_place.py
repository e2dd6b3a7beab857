"""What is kept of a look, and when two looks show the same place."""

from __future__ import annotations

import pytest

from unhang.watch.process_state import py_spy
from unhang.watch.process_state.py_spy import PySpyDump, dump_stacks, same_place

PY_SPY = """Process 41: /usr/bin/python3 -u train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 41 (idle): "MainThread"
    barrier (/opt/torch/distributed/distributed_c10d.py:5356)
    main (/home/u/train.py:11)
"""
SESSION = "_run (/opt/unhang/inprocess/session.py:93)\n"
OURS = (
    'Thread 55 (active): "unhang-store"\n    wait (/usr/lib/python3.11/threading.py:327)\n',
    f"Thread 56 (idle)\n    {SESSION}",
    f"Thread 56 (active)\n    __getattr__ (/opt/torch/__init__.py:2954)\n    Session.{SESSION}",
    "Thread 56 (active)\n    dump (/opt/unhang/inprocess/capture/recorder.py:201)\n",
)


@pytest.mark.parametrize("ours", OURS)
@pytest.mark.parametrize("before", ["", PY_SPY])
def test_our_threads_are_cut_out_of_what_py_spy_prints(ours: str, before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PY_SPY + ours if before else PY_SPY.replace("Thread 41", ours + "Thread 41")
    dump = py_spy.read_stacks(text.encode(), source="", rank=None)[0]
    monkeypatch.setattr(py_spy, "run_py_spy", lambda *_: PySpyDump(text.encode(), dump))

    assert dump_stacks(41).text == PY_SPY
    assert same_place(text, PY_SPY)


def test_idle_or_active_is_the_same_place() -> None:
    assert same_place(PY_SPY, PY_SPY.replace("(idle)", "(active+gil)"))


def test_native_frames_in_one_look_only_are_the_same_place() -> None:
    native = PY_SPY.replace("    barrier", "    pthread_cond_wait (/usr/lib/libc.so.6)\n    barrier")

    assert same_place(PY_SPY, native)


def test_another_line_is_another_place() -> None:
    assert not same_place(PY_SPY, PY_SPY.replace("train.py:11", "train.py:12"))
