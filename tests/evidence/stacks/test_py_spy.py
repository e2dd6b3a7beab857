"""py-spy dumps, text and JSON: real ones of a training job, and torn or hostile ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unhang.evidence.items import Frame, StackDump
from unhang.evidence.stacks import looks_like_stack, read_stacks, stack_limits
from unhang.facts.stacks.activity import activity_of
from unhang.findings import Phase

STACKS = Path(__file__).with_name("samples")


def read(name: str, rank: int | None = None) -> list[StackDump]:
    data = (STACKS / name).read_bytes()
    assert looks_like_stack(data[:65536])
    return read_stacks(data, source=name, rank=rank)


def only(data: str | bytes) -> StackDump:
    (dump,) = read_stacks(data.encode() if isinstance(data, str) else data, source="x.txt", rank=2)
    return dump


def test_threads_names_states_and_lines_of_a_text_dump() -> None:
    (dump,) = read("loader_wait.txt", rank=3)
    assert (dump.pid, dump.rank, dump.format) == (7709, 3, "py-spy")
    assert dump.command == "/opt/venv/bin/python3 -u train.py"
    assert [thread.name for thread in dump.threads] == ["MainThread", "log-writer", "QueueFeederThread"]
    main = dump.threads[0]
    assert (main.thread_id, main.active, main.line) == ("7709", False, 4)
    assert main.frames[0] == Frame("_PollLikeSelector.select", "selectors.py", 415)
    assert main.frames[-1] == Frame("<module>", "train.py", 23)
    assert not dump.unread


def test_native_frames_are_marked_and_have_no_line() -> None:
    (dump,) = read("ddp_backward_native.txt")
    frames = dump.threads[0].frames
    assert frames[0] == Frame("0x7f2eddea3f16", "libc.so.6", None, native=True)
    lambda_frame = frames[4]
    assert lambda_frame.function.startswith("std::_Function_handler<void (), c10d::Reducer::")
    assert lambda_frame.file == "libtorch_cpu.so"
    assert Frame("main", "train.py", 19) in frames
    (other,) = read("loader_wait.txt")
    assert not any(frame.native for frame in other.threads[0].frames)


def test_locals_are_skipped() -> None:
    (with_locals,) = read("loader_worker_locals.txt")
    assert with_locals.threads[0].frames[0] == Frame("D.__getitem__", "train.py", 8)
    assert all(frame.line for frame in with_locals.threads[0].frames)


def test_several_processes_in_one_file_stay_apart() -> None:
    parent, child = read("subprocesses.txt")
    assert (parent.pid, child.pid) == (7911, 7912)
    assert parent.threads[0].frames[0].function == "Popen._try_wait"
    assert child.threads[0].holds_gil is True
    assert (parent.source.line, child.source.line) == (1, 13)


def test_an_idle_thread_of_the_text_may_hold_the_lock() -> None:
    dump = only(
        'Process 1: x\n\nThread 1 (idle): "MainThread"\n    f (a.py:1)\nThread 2 (active): "b"\n    g (a.py:2)\n'
    )
    assert [thread.holds_gil for thread in dump.threads] == [None, False]


def test_json_says_who_holds_the_lock_and_gives_full_paths() -> None:
    (dump,) = read("loader_worker.json", rank=0)
    assert (dump.pid, dump.format) == (7719, "py-spy-json")
    main = next(thread for thread in dump.threads if thread.name == "MainThread")
    assert main.frames[0] == Frame("D.__getitem__", "/home/user/job/train.py", 8)
    assert main.holds_gil is False
    assert main.thread_id == "7719"


def test_a_torn_json_gives_the_threads_before_the_tear() -> None:
    data = (STACKS / "loader_worker.json").read_bytes()
    whole = read("loader_worker.json")[0]
    (dump,) = read_stacks(data[: int(len(data) * 0.8)], source="x.json", rank=1)
    assert 0 < len(dump.threads) < len(whole.threads)
    assert "torn or damaged" in dump.unread[0].reason
    assert dump.unread[0].rank == 1


def test_json_lists_of_several_processes_one_after_the_other() -> None:
    thread = {"pid": 1, "thread_name": "MainThread", "active": True, "owns_gil": True, "frames": []}
    text = json.dumps([thread]) + "\n" + json.dumps([{**thread, "pid": 2}])
    assert [dump.pid for dump in read_stacks(text.encode(), source="x", rank=None)] == [1, 2]


@pytest.mark.parametrize(
    "frames",
    [None, 5, "text", [None, 5, {}, {"name": 3}, {"name": "f", "filename": None, "line": "x"}], {"a": 1}],
)
def test_json_of_wrong_types_is_read_as_far_as_it_goes(frames: object) -> None:
    text = json.dumps([{"pid": "x", "thread_name": 7, "owns_gil": "no", "frames": frames}])
    (dump,) = read_stacks(text.encode(), source="x.json", rank=None)
    assert dump.pid is None


@pytest.mark.parametrize(
    ("line", "frame"),
    [
        ("    main (train.py:18)", Frame("main", "train.py", 18)),
        ("    main (my job (copy)/train.py:18)", Frame("main", "my job (copy)/train.py", 18)),
        ("    <module> (torchrun:8)", Frame("<module>", "torchrun", 8)),
        ("    <lambda> (<string>:1)", Frame("<lambda>", "<string>", 1)),
        (
            "    _find_and_load (<frozen importlib._bootstrap>:1)",
            Frame("_find_and_load", "<frozen importlib._bootstrap>", 1),
        ),
        ("    poll (libc.so.6)", Frame("poll", "libc.so.6", None, native=True)),
        (
            "    select_poll_poll (selectmodule.c.h:223)",
            Frame("select_poll_poll", "selectmodule.c.h", None, native=True),
        ),
        ("    f (x.pyx:3)", Frame("f", "x.pyx", None, native=True)),
        ("    operator() (libtorch.so)", Frame("operator()", "libtorch.so", None, native=True)),
        ("    main (train.py:0)", Frame("main", "train.py", None)),
        ("    main (C:\\job\\train.py:4)", Frame("main", "C:\\job\\train.py", 4)),
    ],
)
def test_shapes_of_a_frame_line(line: str, frame: Frame) -> None:
    dump = only(f'Process 1: x\nThread 0x7F00AA (active): "MainThread"\n{line}\n')
    assert dump.threads[0].frames == (frame,)


def test_thread_lines_without_name_or_process() -> None:
    dump = only("Thread 0x7F2EDDEA3F16 (active+gil)\n    f (a.py:1)\n")
    assert (dump.pid, dump.threads[0].name, dump.threads[0].thread_id) == (None, "", "0x7F2EDDEA3F16")


def test_a_refusal_of_py_spy_is_told() -> None:
    dump = only("Permission Denied: Try running again with elevated permissions by going 'sudo env ...'\n")
    assert dump.threads == ()
    assert dump.unread[0].reason.startswith("py-spy could not read the process: Permission Denied")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 1000,
        b"hello\nworld\n",
        b"\xff\xfe\x00",
        bytes(range(256)) * 50,
        b"[",
        b'[{"frames": [',
        b"[" * 100_000,
    ],
)
def test_what_is_no_stack_gives_a_reason_and_never_raises(data: bytes) -> None:
    (dump,) = read_stacks(data, source="x", rank=None)
    assert dump.threads == ()
    assert dump.unread[0].reason
    assert not looks_like_stack(data) or data.startswith(b'[{"frames')


def test_colours_windows_line_ends_and_utf16_do_no_harm() -> None:
    text = 'Process 1: x\r\nThread 1 (idle): "\x1b[33mMainThread\x1b[0m"\r\n    f (a.py:1)\r\n'
    for data in (text.encode(), text.encode("utf-16"), b"\xef\xbb\xbf" + text.encode()):
        dump = only(data)
        assert (dump.threads[0].name, len(dump.threads[0].frames)) == ("MainThread", 1)


def test_a_runaway_recursion_keeps_both_ends() -> None:
    frames = "".join(f"    deep (a.py:{n})\n" for n in range(1, 50_001))
    dump = only(f'Process 1: x\nThread 1 (idle): "MainThread"\n{frames}    main (a.py:99999)\n')
    kept = dump.threads[0].frames
    assert len(kept) == stack_limits.INNERMOST_KEPT + stack_limits.OUTERMOST_KEPT
    assert kept[0].line == 1
    assert kept[-1].line == 99999


def test_more_frames_than_allowed_are_noted() -> None:
    text = "Process 1: x\n" + "".join(f"Thread {n} (idle)\n" + "    f (a.py:1)\n" * 10 for n in range(11_000))
    dump = only(text)
    assert sum(len(thread.frames) for thread in dump.threads) == stack_limits.MAX_FRAMES
    assert "more than 100,000 stack frames" in dump.unread[0].reason


def test_a_file_beyond_the_limit_is_read_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unhang.evidence.stacks.reading.MAX_BYTES", 1024 * 1024)
    head = b'Process 1: x\nThread 1 (idle): "MainThread"\n    f (a.py:1)\n\n'
    (dump,) = read_stacks(head + b"y" * 3 * 1024 * 1024, source="x", rank=None)
    assert len(dump.threads[0].frames) == 1
    assert dump.unread[0].reason == "only the first 1 MB of 3 MB were read"


@pytest.mark.parametrize(
    "line", ["def main (train.py:18):", "step 3 (loss 4)", "Process finished", "Thread pool (idle)"]
)
def test_ordinary_lines_are_no_stack(line: str) -> None:
    assert not looks_like_stack((line + "\n").encode() * 20)


PASTED = """\
root@a:/# py-spy dump --pid 412
Process 412: python train.py
Python v3.8.13 (/usr/bin/python3.8)

Thread 0x7FA6 (idle): "MainThread"
    wait (threading.py:302)
    get (queue.py:170)
    __next__ (loader.py:648)
    train (train.py:274)

root@b:/# py-spy dump --pid 398     # the others look the same
Thread 0x7F5E (active): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:1322)
    train (train.py:278)
Thread 0x7F60 (active): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:1322)
    train (train.py:278)
"""


def test_a_command_or_a_second_main_thread_begins_another_process() -> None:
    dumps = list(read_stacks(PASTED.encode(), source="job.log", rank=None))

    assert [(dump.pid, len(dump.threads)) for dump in dumps] == [(412, 1), (398, 1), (None, 1)]
    assert dumps[0].command == "python train.py"


def test_who_waits_at_a_queue_inside_of_next_waits_for_its_data() -> None:
    dumps = list(read_stacks(PASTED.encode(), source="job.log", rank=None))

    activity, _ = activity_of(dumps[0], {})
    assert activity is not None
    assert (activity.what, activity.phase) == ("dataloader-wait", Phase.DATA)
