"""Python tracebacks: interleaved, chained, in threads, in groups, drawn, torn."""

from __future__ import annotations

import io
import textwrap

from unhang.evidence.items import LogReading
from unhang.evidence.logs import read_log


def read(text: str) -> LogReading:
    return read_log(io.BytesIO(textwrap.dedent(text).encode()), source="job.log")


PLAIN = """\
    Traceback (most recent call last):
      File "/app/train.py", line 52, in main
        run(args)
        ~~~^^^^^^
      File "/app/train.py", line 94, in run
        torch.cuda.set_device(local_rank)
    RuntimeError: CUDA error: invalid device ordinal
    CUDA kernel errors might be asynchronously reported at some other API call.
"""


def test_a_plain_traceback_has_its_frames_innermost_first() -> None:
    (traceback,) = read(PLAIN).tracebacks
    assert traceback.exception == "RuntimeError"
    assert traceback.message.startswith("CUDA error: invalid device ordinal\nCUDA kernel errors")
    assert [(frame.function, frame.file, frame.line) for frame in traceback.frames] == [
        ("run", "/app/train.py", 94),
        ("main", "/app/train.py", 52),
    ]
    assert traceback.source.line == 1


def test_interleaved_tracebacks_are_told_apart_by_their_prefix() -> None:
    lines = textwrap.dedent(PLAIN).splitlines()
    mixed = "\n".join(f"[rank{rank}]: {line}" for line in lines for rank in (2, 5))
    tracebacks = read(mixed).tracebacks
    assert [(item.rank, item.exception, len(item.frames)) for item in tracebacks] == [
        (2, "RuntimeError", 2),
        (5, "RuntimeError", 2),
    ]


def test_a_line_of_another_process_in_between_does_not_end_a_traceback() -> None:
    (traceback,) = read(
        """\
        Traceback (most recent call last):
          File "/app/train.py", line 52, in main
        [W socket.cpp:601] [c10d] something else
            run(args)
        ValueError: no
        """
    ).tracebacks
    assert (traceback.exception, traceback.message) == ("ValueError", "no")


def test_chained_tracebacks_say_so() -> None:
    first, second = read(
        """\
        Traceback (most recent call last):
          File "/app/data.py", line 5, in load
            x = d["a"]
        KeyError: 'a'

        During handling of the above exception, another exception occurred:

        Traceback (most recent call last):
          File "/app/train.py", line 9, in <module>
            load()
        app.errors.LoadError: cannot load
        """
    ).tracebacks
    assert (first.exception, first.chained) == ("KeyError", True)
    assert (second.exception, second.chained, second.frames[0].function) == ("app.errors.LoadError", False, "<module>")


def test_a_thread_is_named() -> None:
    (traceback,) = read(
        """\
        Exception in thread Thread-7 (_save):
        Traceback (most recent call last):
          File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner
            self.run()
          File "/app/save.py", line 12, in _save
            torch.save(state, path)
        OSError: [Errno 28] No space left on device
        """
    ).tracebacks
    assert traceback.thread == "Thread-7 (_save)"
    assert traceback.exception == "OSError"


def test_an_exception_group_gives_its_members() -> None:
    tracebacks = read(
        """\
          + Exception Group Traceback (most recent call last):
          |   File "/app/train.py", line 3, in <module>
          |     main()
          | ExceptionGroup: two (2 sub-exceptions)
          +-+---------------- 1 ----------------
            | Traceback (most recent call last):
            |   File "/app/train.py", line 8, in worker
            |     raise ValueError("bad")
            | ValueError: bad
            +------------------------------------
        """
    ).tracebacks
    assert [(item.exception, item.frames[0].line) for item in tracebacks] == [("ExceptionGroup", 3), ("ValueError", 8)]


def test_a_traceback_drawn_in_a_box_is_read() -> None:
    (traceback,) = read(
        """\
        ╭───────────────── Traceback (most recent call last) ──────────────────╮
        │ /app/train.py:88 in main                                             │
        │                                                                      │
        │    85 │   model = build()                                            │
        │ ❱  88 │   trainer.fit(model)                                         │
        │                                                                      │
        │ /app/fit.py:12 in fit                                                │
        ╰──────────────────────────────────────────────────────────────────────╯
        RuntimeError: boom
        """
    ).tracebacks
    assert (traceback.exception, traceback.message) == ("RuntimeError", "boom")
    assert [(frame.function, frame.line) for frame in traceback.frames] == [("fit", 12), ("main", 88)]


def test_a_torn_traceback_keeps_its_frames() -> None:
    (traceback,) = read('Traceback (most recent call last):\n  File "/app/train.py", line 52, in main\n').tracebacks
    assert (traceback.exception, traceback.frames[0].line) == ("", 52)


def test_lost_indentation_does_not_hide_the_exception() -> None:
    (traceback,) = read(
        'Traceback (most recent call last):\nFile "/app/train.py", line 52, in main\nrun(args)\nValueError: no\n'
    ).tracebacks
    assert (traceback.exception, traceback.frames[0].line) == ("ValueError", 52)


def test_a_message_ends_where_the_log_goes_on() -> None:
    reading = read(
        """\
        Traceback (most recent call last):
          File "/app/train.py", line 52, in main
            run(args)
        ValueError: no
        2026-11-21 10:00:00 INFO next
        """
    )
    assert reading.tracebacks[0].message == "no"
    assert reading.last_lines[0].text.endswith("INFO next")


def test_equal_tracebacks_of_a_rank_are_folded() -> None:
    block = "".join(f"[rank1]: {line}\n" for line in textwrap.dedent(PLAIN).splitlines()[:-1])
    reading = read_log(io.BytesIO((block * 5000).encode()), source="job.log")
    assert len(reading.tracebacks) == 3
    assert reading.folded["traceback"] == 4997


def test_very_deep_tracebacks_stay_bounded() -> None:
    frames = '  File "/app/train.py", line 52, in main\n    run(args)\n' * 5000
    (traceback,) = read_log(
        io.BytesIO(f"Traceback (most recent call last):\n{frames}RecursionError: deep\n".encode()), source="job.log"
    ).tracebacks
    assert traceback.exception == "RecursionError"
    assert len(traceback.frames) <= 256


def test_what_an_actor_of_ray_raised_is_its_own_and_not_of_who_asked() -> None:
    text = """\
        Traceback (most recent call last):
          File "/app/job.py", line 55, in main
            print(ray.get([a.train.remote(2000) for a in actors]))
        ray.exceptions.RayTaskError(ValueError): ray::Trainer.train() (pid=10070, ip=10.0.0.2, actor_id=f2d9)
          File "/app/job.py", line 34, in train
            raise ValueError("bad sample")
        ValueError: bad sample
        """
    (traceback,) = read(text).tracebacks

    assert (traceback.exception, traceback.message, traceback.pid) == ("ValueError", "bad sample", 10070)
    assert [(frame.function, frame.line) for frame in traceback.frames] == [("train", 34)]


def test_a_traceback_that_a_logger_writes_line_by_line_is_one() -> None:
    head = "(EngineCore_DP0 pid=71388) ERROR 06-02 16:48:02 [core.py:1138] "
    lines = ["Traceback (most recent call last):", '  File "/job/engine.py", line 3, in step', "    wait(call)"]
    text = "".join(f"{head}{line}\n" for line in (*lines, "TimeoutError: RPC call to sample_tokens timed out."))

    (raised,) = read_log(io.BytesIO(text.encode()), source="serve.log").tracebacks

    assert (raised.exception, raised.message) == ("TimeoutError", "RPC call to sample_tokens timed out.")
    assert (raised.program, [frame.line for frame in raised.frames]) == ("EngineCore_DP0", [3])
