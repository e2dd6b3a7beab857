"""gdb, pstack and eu-stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.evidence.items import Frame, StackDump
from unhang.evidence.stacks import looks_like_stack, read_stacks

STACKS = Path(__file__).with_name("samples")


def parse(text: str) -> list[StackDump]:
    return read_stacks(text.encode(), source="gdb.txt", rank=4)


def test_a_real_dump_of_a_backward_that_waits() -> None:
    data = (STACKS / "gdb_ddp_backward.txt").read_bytes()
    assert looks_like_stack(data)
    (dump,) = read_stacks(data, source="gdb.txt", rank=None)
    assert (dump.pid, dump.format) == (7710, "gdb")
    assert dump.threads[-1].thread_id == "7710"
    names = [frame.function for frame in dump.threads[-1].frames]
    assert "c10d::Reducer::finalize_backward()" in names
    assert all(frame.native and frame.line is None for thread in dump.threads for frame in thread.frames)
    assert "pt_gloo_runloop" in [thread.name for thread in dump.threads]


@pytest.mark.parametrize(
    ("line", "function", "file"),
    [
        ("#0  0x00007f in poll () from /lib64/libc.so.6", "poll", "/lib64/libc.so.6"),
        ("#1  __poll (fds=0x7f, n=1) at ../sysdeps/poll.c:29", "__poll", "../sysdeps/poll.c"),
        ("#2  0x00007f in c10d::Work::wait(long) () from /x/libtorch.so", "c10d::Work::wait(long)", "/x/libtorch.so"),
        ("#3  0x00007f in ?? () from /x/libcuda.so.1", "??", "/x/libcuda.so.1"),
        ("#4  0x00007f in ?? ()", "??", ""),
        ('#5  f (text=0x1 "a) from b") at a.c:3', "f", "a.c"),
        ("#6  <signal handler called>", "<signal handler called>", ""),
        ("#7  0x0000000000421abc in main (argc=1) at main.c:2", "main", "main.c"),
    ],
)
def test_shapes_of_a_frame(line: str, function: str, file: str) -> None:
    (dump,) = parse(f'Thread 1 (Thread 0x7fe4ad2a3b80 (LWP 12) "python3"):\n{line}\n')
    assert dump.threads[0].frames == (Frame(function, file, None, native=True),)


@pytest.mark.parametrize(
    ("heading", "thread_id", "name"),
    [
        ('Thread 1 (Thread 0x7fe4 (LWP 77) "python3"):', "77", "python3"),
        ("Thread 1 (Thread 0x7fe4 (LWP 77)):", "77", ""),
        ("Thread 1 (LWP 77):", "77", ""),
        ("Thread 1 (process 77):", "77", ""),
        ('Thread 1 (Thread 0x7fe4 (LWP 77) "cuda-EvtHandlr" (Exiting)):', "77", "cuda-EvtHandlr"),
        ("TID 77:", "77", ""),
    ],
)
def test_shapes_of_a_thread_heading(heading: str, thread_id: str, name: str) -> None:
    (dump,) = parse(f"{heading}\n#0  0x00007f in poll () from /lib64/libc.so.6\n")
    assert (dump.threads[0].thread_id, dump.threads[0].name) == (thread_id, name)
    assert dump.pid == 77
    assert dump.rank == 4


def test_several_processes_in_one_file() -> None:
    one = (
        "Thread 2 (Thread 0x1 (LWP {b})):\n#0  0x00007f in poll () from libc.so.6\n"
        "Thread 1 (Thread 0x2 (LWP {a})):\n#0  0x00007f in poll () from libc.so.6\n"
    )
    dumps = parse(one.format(a=10, b=11) + one.format(a=20, b=21))
    assert [dump.pid for dump in dumps] == [10, 20]
    assert [len(dump.threads) for dump in dumps] == [2, 2]
    attached = parse(
        "Attaching to process 5\n" + one.format(a=5, b=6) + "Attaching to process 7\n" + one.format(a=7, b=8)
    )
    assert [dump.pid for dump in attached] == [5, 7]


def test_python_frames_of_py_bt() -> None:
    (dump,) = parse(
        "Thread 1 (Thread 0x1 (LWP 10)):\n"
        "Traceback (most recent call first):\n"
        '  File "/job/train.py", line 18, in step\n'
        "    dist.barrier()\n"
        '  File "/job/train.py", line 40, in <module>\n'
    )
    assert dump.threads[0].frames == (Frame("step", "/job/train.py", 18), Frame("<module>", "/job/train.py", 40))


def test_eu_stack_and_bare_frames() -> None:
    (dump,) = parse("PID 30 - process\nTID 30:\n#0  0x00007f1 poll\n#1  0x00007f2 main\nTID 31:\n#0  0x00007f3 futex\n")
    assert (dump.pid, [len(thread.frames) for thread in dump.threads]) == (30, [2, 1])
    bare = "#0  0x00007f0000000001 in poll () from libc.so.6\n#1  0x00007f0000000002 in main () from x\n"
    assert looks_like_stack(bare.encode())
    assert len(parse(bare)[0].threads[0].frames) == 2


def test_a_thread_that_was_cut_off_keeps_its_frames() -> None:
    (dump,) = parse("Thread 1 (Thread 0x1 (LWP 10)):\n#0  0x00007f in poll () from libc.so.6\n#1  0x0000")
    assert len(dump.threads[0].frames) >= 1


def test_py_spy_and_gdb_in_one_file() -> None:
    dumps = parse(
        'Process 5: python train.py\n\nThread 5 (idle): "MainThread"\n    f (a.py:1)\n\n'
        "Thread 1 (Thread 0x1 (LWP 5)):\n#0  0x00007f in poll () from libc.so.6\n"
    )
    assert [(dump.format, dump.pid) for dump in dumps] == [("py-spy", 5), ("gdb", 5)]


def test_numbered_lines_of_a_log_are_no_stack() -> None:
    assert not looks_like_stack(b"#1 first\n#2 second\n#0 all_reduce from /torch/distributed_c10d.py:10\n")


def test_very_many_threads_take_no_more_than_their_share_of_time() -> None:
    text = "".join(f"Thread {n} (LWP {n}):\n#0  0x1 in f () from x\n" for n in range(40_000))
    (dump,) = parse(text)
    assert len(dump.threads) == 40_000
