"""A look never leaves a process stopped, and says why it saw nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from unhang.evidence.items import Frame, StackDump, ThreadStack
from unhang.findings import Source
from unhang.watch.process_state import py_spy, stack_collection
from unhang.watch.process_state.py_spy import find_py_spy
from unhang.watch.process_state.stack_collection import (
    KernelSample,
    ProcessSample,
    has_moved,
    resume_if_stopped,
    sample_kernel,
    sample_process,
)

SLEEPS = "import time\nprint('up', flush=True)\ntime.sleep(60)"
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", SLEEPS], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        wait_for_state(child.pid, "S")
        try:
            yield child.pid
        finally:
            child.kill()


def wait_for_state(pid: int, state: str) -> None:
    deadline = time.monotonic() + 60
    while sample_kernel(pid).state != state:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_that_a_look_left_stopped_goes_on(sleeper: int) -> None:
    os.kill(sleeper, signal.SIGSTOP)
    wait_for_state(sleeper, "T")
    assert resume_if_stopped(sleeper, "S", limit_s=0.1) is True
    wait_for_state(sleeper, "S")


def test_a_process_that_was_stopped_before_stays_so(sleeper: int) -> None:
    os.kill(sleeper, signal.SIGSTOP)
    wait_for_state(sleeper, "T")
    assert resume_if_stopped(sleeper, "T", limit_s=0.1) is False
    assert sample_kernel(sleeper).state == "T"


@pytest.mark.skipif(find_py_spy() is None, reason="needs py-spy")
def test_py_spy_that_dies_half_way_leaves_nobody_stopped(sleeper: int) -> None:
    for delay_s in (0.005, 0.02, 0.05, 0.1, 0.2):
        command = [str(find_py_spy()), "dump", "--native", "--pid", str(sleeper)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as spy:
            time.sleep(delay_s)
            spy.kill()
        resume_if_stopped(sleeper, "S")
        wait_for_state(sleeper, "S")


@pytest.mark.skipif(find_py_spy() is None, reason="needs py-spy")
def test_a_stopped_process_is_looked_at_without_stopping_it(sleeper: int) -> None:
    os.kill(sleeper, signal.SIGSTOP)
    wait_for_state(sleeper, "T")
    look = sample_process(sleeper, native=True)  # py-spy that stops it would wait for ever
    assert look.kernel.state == "T"
    assert not look.native
    assert sample_kernel(sleeper).state == "T"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("echo 'Error: Permission Denied: Try running again with elevated permissions' >&2; exit 1", "SYS_PTRACE"),
        ("exec sleep 60", "too long"),
        ("echo '[{]'", "no Python thread"),
        ("head -c 20000000 /dev/zero", "py-spy"),
        ("echo oh >&2; exit 3", "oh"),
    ],
)
def test_a_py_spy_that_fails_leaves_the_kernels_word(
    program: str, reason: str, sleeper: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "py-spy"
    fake.write_text(f"#!/bin/sh\n{program}\n")
    fake.chmod(0o700)
    monkeypatch.setattr(py_spy, "find_py_spy", lambda: str(fake))
    limit_s = 0.3 if reason == "too long" else 60.0
    monkeypatch.setattr(stack_collection, "PY_SPY_LIMIT_S", limit_s)
    monkeypatch.setattr(stack_collection, "NONBLOCKING_LIMIT_S", limit_s)
    look = sample_process(sleeper)
    assert look.stack is None
    assert reason in look.refused
    assert look.kernel.state == "S"
    assert look.kernel.cpu_ticks is not None


def test_a_process_that_is_gone_is_said_so() -> None:
    look = sample_process(2**22 + 1)
    assert look.refused == "it is gone"


def test_two_looks_tell_moving_from_still() -> None:
    assert has_moved([_look(5)], waits_asleep=True) is None
    assert has_moved([_look(5), _look(5)], waits_asleep=True) is False
    assert has_moved([_look(5), _look(6), _look(6)], waits_asleep=True) is True


def test_a_thread_that_came_back_to_the_same_wait_has_moved() -> None:
    looks = [_look(5, switches=100), _look(5, switches=140)]
    assert has_moved(looks, waits_asleep=True) is True
    assert has_moved(looks, waits_asleep=False) is False  # a GPU's waits spin and yield


def test_without_stacks_the_processor_tells() -> None:
    def blind(ticks: int, state: str = "S") -> ProcessSample:
        return ProcessSample(1, 0.0, KernelSample(state=state, cpu_ticks=ticks, system_call="202"))

    assert has_moved([blind(10), blind(10)], waits_asleep=True) is False
    assert has_moved([blind(10), blind(60)], waits_asleep=True) is True
    assert has_moved([blind(10, "T"), blind(60, "T")], waits_asleep=True) is False


def _look(line: int, *, switches: int = 0) -> ProcessSample:
    frame = Frame("all_reduce", "/lib/torch/distributed/distributed_c10d.py", line)
    dump = StackDump(Source("x"), 0, 1, (ThreadStack("MainThread", "1", (frame,), active=False),), "py-spy-json")
    return ProcessSample(1, 0.0, KernelSample(state="S", switches=switches), b"[]", dump)


def test_the_kernel_tells_since_when_a_process_sleeps_and_how_much_it_wanted_a_processor(sleeper: int) -> None:
    first = sample_kernel(sleeper)
    time.sleep(0.5)
    second = sample_kernel(sleeper)

    assert first.at_ns is not None
    assert second.at_ns is not None
    assert second.at_ns - first.at_ns >= 0.5e9
    assert first.busy_ns == second.busy_ns
    if first.asleep_s is not None and second.asleep_s is not None:  # not every kernel says it
        assert second.asleep_s - first.asleep_s == pytest.approx(0.5, abs=0.3)
    assert sample_kernel(os.getpid()).asleep_s is None
