"""faulthandler dumps of Python 3.10 to 3.14, alone and in the middle of a launcher's log."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.evidence.format_detection import FileKind, detect_format
from unhang.evidence.items import Frame, StackDump
from unhang.evidence.stacks import looks_like_stack, read_stacks

STACKS = Path(__file__).with_name("samples")


def read(name: str) -> list[StackDump]:
    data = (STACKS / name).read_bytes()
    assert looks_like_stack(data)
    return read_stacks(data, source=name, rank=None)


def parse(text: str, rank: int | None = None) -> list[StackDump]:
    return read_stacks(text.encode(), source="x.log", rank=rank)


def test_a_dump_on_a_signal() -> None:
    (dump,) = read("faulthandler_loader_wait.txt")
    assert dump.format == "faulthandler"
    assert [len(thread.frames) for thread in dump.threads] == [5, 4, 11]
    main = dump.threads[2]
    assert main.name == "MainThread"
    assert main.line == 14
    assert main.frames[0] == Frame("select", "/usr/lib/python3.11/selectors.py", 415)
    assert main.frames[-1] == Frame("<module>", "/home/user/job/train.py", 23)
    assert dump.threads[1].name == ""


def test_a_crash_keeps_its_fatal_line() -> None:
    (dump,) = read("faulthandler_segv.txt")
    assert dump.fatal == "Segmentation fault"
    assert dump.source.line == 1
    assert [thread.name for thread in dump.threads] == ["", "MainThread"]
    assert dump.threads[1].frames[0].function == "string_at"


def test_a_repeating_timer_gives_one_dump_each_time() -> None:
    dumps = read("faulthandler_timer.txt")
    assert len(dumps) == 2
    assert [len(dump.threads) for dump in dumps] == [2, 2]
    assert dumps[0].source.line is not None
    assert dumps[1].source.line is not None
    assert dumps[0].source.line < dumps[1].source.line


def test_a_repeated_dump_without_a_heading_is_told_by_its_threads() -> None:
    one = (
        'Thread 0x01 (most recent call first):\n  File "a.py", line 1 in f\n\n'
        'Current thread 0x02 (most recent call first):\n  File "a.py", line 2 in g\n'
    )
    assert [len(dump.threads) for dump in parse(one + one)] == [2, 2]


def test_a_stack_of_more_than_a_hundred_frames_is_cut_by_python() -> None:
    (dump,) = read("faulthandler_deep.txt")
    assert max(len(thread.frames) for thread in dump.threads) == 100


def test_names_and_c_stack_of_python_3_14() -> None:
    (dump,) = parse(
        "Fatal Python error: Aborted\n\n"
        "Thread 0x00007f01 [loader-0] (most recent call first):\n"
        "  <no Python frame>\n\n"
        "Current thread 0x00007f02 [pt_main_thread] (most recent call first):\n"
        '  File "/job/train.py", line 7 in main\n'
        '  File "/job/train.py", line 9 in <module>\n\n'
        "Current thread's C stack trace (most recent call first):\n"
        '  Binary file "/usr/lib/libpython3.14.so.1.0", at _Py_DumpStack+0x3d [0x7f7d45e5a1b2]\n'
        '  Binary file "/usr/lib/libc.so.6", at +0x42520 [0x7f7d45a42520]\n'
        '  Binary file "/opt/torch/lib/libtorch_cpu.so"\n'
        "  <truncated rest of calls>\n\n"
        "Extension modules: numpy._core._multiarray_umath, torch._C (total: 2)\n"
    )
    assert dump.fatal == "Aborted"
    assert [thread.name for thread in dump.threads] == ["loader-0", "pt_main_thread"]
    assert dump.threads[0].frames == ()
    frames = dump.threads[1].frames
    assert [frame.function for frame in frames] == ["_Py_DumpStack", "0x7f7d45a42520", "??", "main", "<module>"]
    assert [frame.native for frame in frames] == [True, True, True, False, False]


@pytest.mark.parametrize("prefix", ["[rank{}]: ", "[default{}]:", "{}: "])
def test_ranks_that_print_at_once_are_kept_apart_by_their_prefix(prefix: str) -> None:
    lines = [
        "Thread 0x01 (most recent call first):",
        '  File "/job/train.py", line 10 in main',
        '  File "/job/train.py", line 20 in <module>',
    ]
    mixed = "".join(prefix.format(rank) + line + "\n" for line in lines for rank in (0, 1))
    dumps = parse("some log line\n" + mixed)
    assert [dump.rank for dump in dumps] == [0, 1]
    assert all(len(dump.threads[0].frames) == 2 for dump in dumps)


def test_the_rank_of_the_file_goes_before_the_prefix() -> None:
    (dump,) = parse('[rank1]: Thread 0x01 (most recent call first):\n[rank1]:   File "a.py", line 1 in f\n', rank=9)
    assert dump.rank == 9


def test_a_process_that_collects_garbage_keeps_its_frames() -> None:
    (dump,) = parse('Current thread 0x01 (most recent call first):\n  Garbage-collecting\n  File "a.py", line 1 in f\n')
    assert len(dump.threads[0].frames) == 1


def test_a_log_goes_on_after_the_dump() -> None:
    (dump,) = parse(
        "Timeout (0:00:10)!\n"
        "Thread 0x01 (most recent call first):\n"
        '  File "a.py", line 1 in f\n'
        "epoch 3 step 17 loss 0.3\n"
        '  File "b.py", line 2 in g\n'
    )
    assert dump.threads[0].frames == (Frame("f", "a.py", 1),)


def test_a_torn_dump_gives_what_it_holds() -> None:
    data = (STACKS / "faulthandler_loader_wait.txt").read_bytes()
    (dump,) = read_stacks(data[:700], source="x", rank=None)
    assert dump.threads
    assert dump.threads[0].frames


def test_a_traceback_or_a_c_backtrace_is_no_faulthandler_dump() -> None:
    for text in (
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: x\n',
        "Exception raised from checkTimeout at ../c10d/NCCL.cpp:525 (most recent call first):\nframe #0: x\n",
    ):
        assert not looks_like_stack(text.encode())


def test_a_log_that_ends_in_stacks_stays_a_log() -> None:
    stacks = b'Fatal Python error: Aborted\n\nThread 0x7f (most recent call first):\n  File "t.py", line 3 in f\n'
    terminate = b"terminate called after throwing an instance of 'gloo::EnforceNotMet'\n"

    assert detect_format(stacks, "stderr.log").kind is FileKind.STACKS
    assert detect_format(terminate + stacks, "stderr.log").kind is FileKind.LOG
