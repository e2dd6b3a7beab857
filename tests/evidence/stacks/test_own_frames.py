"""What stands in a stack only because unhang watches is not shown, and is nobody's code."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.evidence.inputs import read_evidence
from unhang.evidence.items import Frame
from unhang.evidence.stacks import read_stacks
from unhang.facts.stacks.user_frames import first_user_frame, is_user_frame

PLACES = (
    "/work/tree/src/unhang/inprocess/",
    "unhang/inprocess/",
    "/opt/venv/lib/python3.12/site-packages/unhang/inprocess/",
)
PY_SPY = """\
Process 41: python train.py
Python v3.11.4 (/usr/bin/python3.11)

Thread 41 (idle): "MainThread"
    _wait (torch/distributed/rendezvous.py:70)
    init_process_group (torch/distributed/distributed_c10d.py:1800)
    init_process_group ({place}targets.py:70)
    main (/job/train.py:12)
    <module> (/job/train.py:30)
Thread 44 (idle): "Thread-1"
    sleep ({place}sleep.py:52)
    _beat_until_stopped ({place}session.py:150)
    _run ({place}session.py:104)
"""
FAULTHANDLER = """\
Fatal Python error: Aborted

Thread 0x00007f0000000001 (most recent call first):
  File "{place}session.py", line 117 in _beat_until_stopped
  File "{place}session.py", line 70 in _run

Thread 0x00007f0000000002 (most recent call first):
  File "/opt/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", line 4287 in all_gather
  File "/job/train.py", line 40 in main
  File "/job/train.py", line 46 in <module>
"""
QUALIFIED = """\
Process 41: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 44 (active)
    get_data (<frozen importlib._bootstrap_external>:1073)
    __getattr__ (/opt/venv/lib/python3.11/site-packages/torch/__init__.py:2954)
    FlightRecorder.dump ({place}capture/recorder.py:189)
    Session._run ({place}session.py:98)
Thread 45 (active)
    DumpWriter._write ({place}capture/dumps.py:66)
Thread 46 (idle): "unhang-store"
    wait (/usr/lib/python3.11/threading.py:327)
Thread 41 (idle): "MainThread"
    all_reduce (/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:3245)
    main (/job/train.py:12)
"""
IN_A_HOOK = """\
Process 41: python train.py
Python v3.11.4 (/usr/bin/python3.11)

Thread 41 (idle): "MainThread"
    finish (/job/report.py:9)
    own_hook (/job/train.py:3)
    excepthook ({place}crash.py:99)
"""


def ours(frame: Frame) -> bool:
    return "unhang/inprocess/" in frame.file


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("text", "threads"), [(PY_SPY, 1), (FAULTHANDLER, 1), (QUALIFIED, 1), (IN_A_HOOK, 1)])
def test_our_thread_and_our_frames_are_left_out(text: str, threads: int, place: str) -> None:
    (dump,) = read_stacks(text.format(place=place).encode(), source="rank_0.txt", rank=0)

    assert len(dump.threads) == threads
    assert not any(ours(frame) for thread in dump.threads for frame in thread.frames)
    assert dump.threads[0].frames[-1].file == "/job/train.py"
    assert dump.unread == ()


@pytest.mark.parametrize("place", PLACES)
def test_our_frames_are_nobodys_code(place: str) -> None:
    frame = Frame("init_process_group", f"{place}targets.py", 70)

    assert not is_user_frame(frame)
    assert first_user_frame((frame,)) is None
    assert first_user_frame((frame, Frame("main", "/job/train.py", 12))) is not None


def test_a_traceback_through_our_function_reads_as_without_us(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text(
        "Traceback (most recent call last):\n"
        '  File "/job/train.py", line 12, in <module>\n'
        '    dist.init_process_group("gloo")\n'
        '  File "/work/tree/src/unhang/inprocess/patched_functions.py", line 70, in init_process_group\n'
        "    return original(*args, **kwargs)\n"
        '  File "/opt/venv/lib/python3.12/site-packages/torch/distributed/rendezvous.py", line 200, in _create\n'
        "    return TCPStore(host)\n"
        "RuntimeError: The server socket has failed to listen\n"
    )

    (traceback,) = read_evidence([str(tmp_path)]).logs[0].tracebacks

    assert [frame.line for frame in traceback.frames] == [200, 12]
