"""Which process failed by itself, and which only fell with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import Frame, LogEvent, LogReading, ProcessExit, Progress, PythonTraceback, StackDump
from unhang.evidence.stacks import read_stacks
from unhang.facts.build import build_facts
from unhang.facts.endings.crashes import Crash, primary_crashes
from unhang.facts.endings.first_timeouts import TimeoutOrder
from unhang.facts.endings.traceback_echoes import is_echo, is_gpu_out_of_memory
from unhang.findings import Source


def traceback(
    rank: int | None, exception: str, message: str = "", *, line: int = 10, **parts: object
) -> PythonTraceback:
    return PythonTraceback(Source("job.log", line), rank, None, exception, message, (), **parts)  # type: ignore[arg-type]


def ended(rank: int, code: int, **parts: object) -> ProcessExit:
    return ProcessExit(Source("launcher.log", 1), rank, rank, 100 + rank, code, None, **parts)  # type: ignore[arg-type]


def crashes(
    *tracebacks: PythonTraceback, exits: tuple[ProcessExit, ...] = (), progress: tuple[Progress, ...] = ()
) -> tuple[Crash, ...]:
    ranks = tuple({t.rank for t in tracebacks if t.rank is not None} | {e.rank for e in exits if e.rank is not None})
    log = LogReading(Source("job.log"), None, (), tracebacks, exits, progress, (), 99, ranks)
    return primary_crashes(build_facts(EvidenceSet(logs=[log])))


def test_an_exception_without_a_time_happened_before_its_rank_ended() -> None:
    found = crashes(
        traceback(2, "FileNotFoundError", "/data/shard-0007.tar"),
        exits=(replace(ended(0, 1), time_s=1001.0), replace(ended(2, 1), time_s=1000.0)),
    )

    assert [crash.rank for crash in found] == [2, 0]


@pytest.mark.parametrize(
    ("exception", "message"),
    [
        ("torch.distributed.DistBackendError", "NCCL error in: ProcessGroupNCCL.cpp:2395, remote process exited"),
        ("torch.distributed.DistNetworkError", "Connection was likely closed. Did the remote server shutdown?"),
        ("RuntimeError", "[gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:3971"),
        ("RuntimeError", "[gloo/transport/tcp/pair.cc:534] Connection reset by peer"),
        ("RuntimeError", "Timed out waiting 1800000ms for recv operation to complete"),
        ("RuntimeError", "Application timeout caused pair closure"),
        ("RuntimeError", "[/__w/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waitin"),
        ("RuntimeError", "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41)"),
        ("RuntimeError", "NCCL communicator was aborted on rank 1."),
        ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError", ""),
        ("torch.distributed.elastic.multiprocessing.errors.ChildFa", ""),
        ("torch.distributed.elastic.multiprocessing.api.SignalException", "Process 4000 got signal: 15"),
        ("BrokenPipeError", "[Errno 32] Broken pipe"),
        ("RuntimeError", "Detected mismatch between collectives on ranks."),
        ("torch.distributed.DistStoreError", "Socket Timeout"),
    ],
)
def test_what_only_says_that_a_partner_is_gone_is_an_echo(exception: str, message: str) -> None:
    assert is_echo(traceback(0, exception, message))


@pytest.mark.parametrize(
    ("exception", "message"),
    [
        ("FileNotFoundError", "[Errno 2] No such file or directory: '/data/x'"),
        ("ValueError", "bad sample"),
        ("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB"),
        ("RuntimeError", "The size of tensor a (3) must match the size of tensor b (4)"),
        ("IndexError", "index out of range in self"),
    ],
)
def test_a_failure_of_ones_own_is_no_echo(exception: str, message: str) -> None:
    assert not is_echo(traceback(0, exception, message))


@pytest.mark.parametrize(
    ("exception", "message", "gpu"),
    [
        ("torch.OutOfMemoryError", "CUDA out of memory.", True),
        ("torch.cuda.OutOfMemoryError", "HIP out of memory.", True),
        ("RuntimeError", "CUDA error: out of memory", True),
        ("RuntimeError", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", True),
        ("RuntimeError", "DefaultCPUAllocator: can't allocate memory: you tried to allocate 5 bytes", False),
        ("OSError", "[Errno 12] Cannot allocate memory", False),
        ("ValueError", "bad sample", False),
    ],
)
def test_memory_of_the_accelerator_is_told_from_the_hosts(exception: str, message: str, gpu: bool) -> None:
    assert is_gpu_out_of_memory(exception, message) is gpu


def test_the_first_own_failure_leads_whatever_is_printed_first() -> None:
    echo = traceback(0, "RuntimeError", "Connection closed by peer", line=1)

    assert [(c.rank, c.exception) for c in crashes(echo, traceback(2, "ValueError", "x", line=50))] == [
        (2, "ValueError")
    ]


def test_attempts_after_the_first_come_later() -> None:
    found = crashes(traceback(1, "KeyError", "b", attempt=1), traceback(2, "ValueError", "a", line=90))

    assert [c.rank for c in found] == [2, 1]


@pytest.mark.parametrize("code", [-15, -6, -2, -1, 143, 134])
def test_signals_that_peers_and_launchers_send_tell_nothing(code: int) -> None:
    assert crashes(exits=(ended(1, code), ended(2, code))) == ()


@pytest.mark.parametrize("code", [-6, 134])
def test_one_that_aborts_alone_where_nobody_waited_in_vain_may_have_crashed(code: int) -> None:
    assert [(c.rank, c.when) for c in crashes(exits=(ended(1, code),))] == [(1, TimeoutOrder.UNKNOWN)]
    assert crashes(traceback(0, "RuntimeError", "Connection closed by peer"), exits=(ended(1, code),)) == ()


@pytest.mark.parametrize(("code", "name"), [(-9, "SIGKILL"), (137, "SIGKILL"), (-11, "SIGSEGV"), (139, "SIGSEGV")])
def test_signals_that_kill_are_crashes_also_as_shells_say_them(code: int, name: str) -> None:
    assert [(c.rank, c.exception) for c in crashes(exits=(ended(1, code),))] == [(1, name)]


def test_whom_the_launcher_ended_is_a_victim() -> None:
    assert crashes(exits=(ended(1, -9, terminated_by_launcher=True),)) == ()


def test_the_exception_says_more_than_the_exit_code_that_followed() -> None:
    (one,) = crashes(traceback(1, "ValueError", "x"), exits=(ended(1, 1),))

    assert (one.exception, one.message) == ("ValueError", "x")


def test_a_user_who_interrupts_is_no_crash() -> None:
    assert crashes(traceback(0, "KeyboardInterrupt"), traceback(1, "SystemExit", "0")) == ()


def steps(rank: int, last_line: int) -> Progress:
    return Progress(Source("job.log", 1), rank, "step", 1, 40, None, None, None, last_line)


def test_an_exception_after_which_the_steps_go_on_was_survived() -> None:
    raised = traceback(0, "ValueError", "x", line=10)

    assert crashes(raised, progress=(steps(0, 50),)) == ()
    assert len(crashes(raised, progress=(steps(0, 9),))) == 1
    assert len(crashes(raised, progress=(steps(1, 50),))) == 1


def test_an_exception_that_was_survived_up_the_same_frames_before_is_handled_again() -> None:
    frames = (Frame("get", "storage.py", 64), Frame("fetch", "loader.py", 118))
    before, again = (
        replace(traceback(rank, "TimeoutError", f"shard {line}", line=line), frames=frames)
        for rank, line in ((0, 10), (1, 60))
    )
    uncaught = replace(again, frames=(*frames, Frame("<module>", "train.py", 9)))

    assert crashes(before, again, progress=(steps(0, 50), steps(1, 59))) == ()
    assert [c.rank for c in crashes(before, uncaught, progress=(steps(0, 50), steps(1, 59)))] == [1]
    assert [c.rank for c in crashes(before, again, exits=(ended(1, 1),), progress=(steps(0, 50),))] == [1]
    assert len(crashes(before, again)) == 2


def test_an_exception_in_another_thread_is_not_survived_by_the_steps_of_the_main_one() -> None:
    raised = traceback(0, "ValueError", "x", line=10, thread="Thread-1 (train)")

    assert len(crashes(raised, progress=(steps(0, 50),))) == 1


def test_an_exception_with_a_failing_exit_was_not_survived() -> None:
    raised = traceback(0, "ValueError", "x", line=10)

    assert len(crashes(raised, exits=(ended(0, 1),), progress=(steps(0, 50),))) == 1


def lone(rank: int | None, text: str, kind: str) -> LogEvent:
    return LogEvent(kind, Source("job.log", 5), text, rank, None)


def crashed_beside(*events: LogEvent, exits: tuple[ProcessExit, ...]) -> tuple[Crash, ...]:
    log = LogReading(Source("job.log"), None, events, (), exits, (), (), 99, (0, 1))
    return primary_crashes(build_facts(EvidenceSet(logs=[log])))


@pytest.mark.parametrize("rank", [1, None])
def test_an_exit_is_an_echo_where_only_the_last_line_of_its_traceback_was_pasted(rank: int | None) -> None:
    timed_out = lone(
        rank, "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation", "gloo.to"
    )
    own = lone(rank, "ValueError: bad batch", "py.error")

    assert crashed_beside(timed_out, exits=(ended(1, 1),)) == ()
    assert [crash.rank for crash in crashed_beside(own, exits=(ended(1, 1),))] == [1]


def test_what_the_launcher_raises_for_a_rank_is_an_echo_under_a_torn_name() -> None:
    frame = Frame("launch_agent", "/opt/lib/torch/distributed/launcher/api.py", 383)

    assert is_echo(replace(traceback(None, "Failures"), frames=(frame,)))
    assert not is_echo(replace(traceback(None, "Failures"), frames=(Frame("main", "/home/u/train.py", 3), frame)))


LIMIT_PASSED_S = 1_800.0


def with_timeouts(
    *raised: PythonTraceback, exits: tuple[ProcessExit, ...] = (), last_step_s: float | None = None
) -> list[Crash]:
    """Crashes of ranks 0 to 3 where ranks 0 and 1 gave up waiting at ``LIMIT_PASSED_S``, in line 50 of ``job.log``."""
    events = tuple(
        LogEvent("wd.timeout", Source("job.log", 50 + rank), "Watchdog caught …", rank, LIMIT_PASSED_S)
        for rank in (0, 1)
    )
    steps = Progress(Source("job.log", 1), 0, "step", 1, 9, None, 0.0, last_step_s, 9)
    log = LogReading(Source("job.log"), None, events, raised, exits, (steps,), (), 99, (0, 1, 2, 3))
    return list(primary_crashes(build_facts(EvidenceSet(logs=[log]))))


@pytest.mark.parametrize("code", [-11, -9, -7, -4, 1, 139])
def test_what_ends_after_a_limit_had_passed_is_no_crash_of_its_own(code: int) -> None:
    assert with_timeouts(exits=(replace(ended(2, code), time_s=LIMIT_PASSED_S + 23),)) == []


@pytest.mark.parametrize("code", [-11, -9, 1])
@pytest.mark.parametrize("time_s", [LIMIT_PASSED_S - 5, -10.0])
def test_what_ended_before_the_limit_had_passed_may_be_the_cause(code: int, time_s: float) -> None:
    (crash,) = with_timeouts(exits=(replace(ended(2, code), time_s=time_s),))

    assert (crash.rank, crash.when) == (2, TimeoutOrder.BEFORE)


def test_without_a_time_nobody_knows_whether_it_ended_before_the_limit_had_passed() -> None:
    (crash,) = with_timeouts(exits=(ended(2, -11),))

    assert crash.when is TimeoutOrder.UNKNOWN


def test_who_gave_up_waiting_itself_was_there_when_the_limit_passed() -> None:
    assert with_timeouts(exits=(ended(1, -11),)) == []


@pytest.mark.parametrize(
    ("rank", "line", "when"),
    [(1, 40, TimeoutOrder.BEFORE), (2, 40, TimeoutOrder.BEFORE), (2, 90, TimeoutOrder.UNKNOWN)],
)
def test_lines_behind_a_timeout_are_ordered_within_one_speaker_only(rank: int, line: int, when: TimeoutOrder) -> None:
    (crash,) = with_timeouts(traceback(rank, "ValueError", "bad sample", line=line))

    assert crash.when is when


def test_an_exception_behind_the_timeout_of_the_same_rank_is_no_crash() -> None:
    assert with_timeouts(traceback(1, "ValueError", "I/O operation on closed file.", line=90)) == []


def test_an_exception_of_a_process_that_lived_on_may_have_come_before_the_limit() -> None:
    (crash,) = with_timeouts(
        traceback(2, "ValueError", "bad sample", line=90), exits=(replace(ended(2, 1), time_s=LIMIT_PASSED_S + 23),)
    )

    assert (crash.exception, crash.when) == ("ValueError", TimeoutOrder.UNKNOWN)


def test_a_crash_long_after_a_timeout_that_the_job_went_on_after_is_its_own() -> None:
    (crash,) = with_timeouts(exits=(replace(ended(2, -11), time_s=9_000.0),), last_step_s=8_990.0)

    assert crash.when is TimeoutOrder.BEFORE


def test_a_restarted_job_crashes_by_itself_again() -> None:
    (crash,) = with_timeouts(exits=(replace(ended(2, -11, attempt=1), time_s=LIMIT_PASSED_S + 60),))

    assert crash.attempt == 1


@pytest.mark.parametrize(("seconds", "count"), [(23, 0), (-2_400, 1)])
def test_years_are_not_compared_where_only_one_log_tells_its_own(seconds: int, count: int) -> None:
    """NCCL's lines have no year, torchrun's table has one: the file of the former may be copied a year later."""
    timeout = LogEvent("wd.timeout", Source("rank0.log", 5), "Watchdog caught …", 0, 1_791_536_000.0)
    ranks = LogReading(Source("rank0.log"), 0, (timeout,), (), (), (), (), 9, (0,), timeout.time_s, has_year=False)
    end = replace(ended(2, -11), time_s=1_791_536_000.0 - 365 * 86_400 + seconds)
    launcher = LogReading(Source("launcher.log"), None, (), (), (end,), (), (), 9, (), end.time_s)

    assert len(primary_crashes(build_facts(EvidenceSet(logs=[ranks, launcher])))) == count


FELL = """\
Fatal Python error: Aborted

{current} 0x00007f27e6df2b80 (most recent call first):
  File "{file}", line 10 in {function}
  File "/job/train.py", line 14 in <module>
"""
OWN, WATCHDOG = ("Current thread", "/job/train.py", "load"), ("Thread", "/job/train.py", "load")
IN_A_CALL = (
    "Current thread",
    "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py",
    "all_reduce",
)


@pytest.mark.parametrize("exits", [(ended(1, -6),), ()], ids=["told", "the launcher was quicker to ask"])
@pytest.mark.parametrize(("fell", "guilty"), [(OWN, [1]), (WATCHDOG, []), (IN_A_CALL, [])])
def test_a_rank_that_aborts_in_its_own_code_failed_by_itself(
    fell: tuple[str, str, str], guilty: list[int], exits: tuple[ProcessExit, ...]
) -> None:
    """A watchdog aborts in a thread without Python, and Gloo in the middle of a call."""
    current, file, function = fell
    text = FELL.format(current=current, file=file, function=function)
    stacks = read_stacks(text.encode(), source="crash/rank_1.faulthandler", rank=1)
    log = LogReading(Source("job.log"), None, (), (), exits, (), (), 99, (1,))

    found = primary_crashes(
        build_facts(EvidenceSet(logs=[log], stacks=[s for s in stacks if isinstance(s, StackDump)]))
    )

    assert [crash.rank for crash in found] == guilty
