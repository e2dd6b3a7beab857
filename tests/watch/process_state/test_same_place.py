"""What is kept of a look, and when two looks show the same place."""

from __future__ import annotations

from unhang.watch.process_state.py_spy import same_place, without_our_thread

PY_SPY = """Process 41: /usr/bin/python3 -u train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 41 (idle): "MainThread"
    barrier (/opt/torch/distributed/distributed_c10d.py:5356)
    main (/home/u/train.py:11)
Thread 55 (active): "unhang-recorder"
    watch (/opt/unhang_lab/worker.py:96)
"""
FAULTHANDLER = """Thread 0x00007f0a (most recent call first):
  File "/opt/unhang_lab/worker.py", line 96 in watch
  File "/usr/lib/python3.11/threading.py", line 982 in run

Current thread 0x00007f0b (most recent call first):
  File "/home/u/train.py", line 26 in score
  File "/opt/unhang_lab/worker.py", line 163 in main
"""


def test_our_thread_is_cut_out_of_py_spy_s_text() -> None:
    kept = without_our_thread(PY_SPY)

    assert "unhang-recorder" not in kept
    assert "main (/home/u/train.py:11)" in kept
    assert kept.startswith("Process 41")


def test_our_thread_in_a_rank_is_cut_out_whether_or_not_its_class_is_named() -> None:
    for function in ("_run", "Session._run"):
        ours = f"Thread 56 (idle)\n    {function} (/opt/unhang/inprocess/session.py:93)\n"
        assert without_our_thread(PY_SPY + ours) == without_our_thread(PY_SPY)


def test_our_thread_is_cut_out_of_faulthandler_s_text_and_the_main_thread_stays() -> None:
    kept = without_our_thread(FAULTHANDLER)

    assert "in watch" not in kept
    assert "line 26 in score" in kept


def test_idle_or_active_is_the_same_place() -> None:
    assert same_place(PY_SPY, PY_SPY.replace("(idle)", "(active+gil)"))


def test_native_frames_in_one_look_only_are_the_same_place() -> None:
    native = PY_SPY.replace("    barrier", "    pthread_cond_wait (/usr/lib/libc.so.6)\n    barrier")

    assert same_place(PY_SPY, native)


def test_another_line_is_another_place() -> None:
    assert not same_place(PY_SPY, PY_SPY.replace("train.py:11", "train.py:12"))
