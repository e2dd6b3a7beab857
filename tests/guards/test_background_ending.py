"""Whatever ends the program, nothing that was logged is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.guards.kept_writer import LIMIT_S, run_python

torch = pytest.importorskip("torch")


PROGRAM = """
    import os, signal, sys, threading, time
    from unhang.guards.background_writer import BackgroundWriter

    class Lines:
        def __init__(self, path):
            self.file = open(path, "w")
        def log(self, values, step=None):
            time.sleep(0.002)
            self.file.write(f"{values['loss']}\\n")
        def flush(self):
            self.file.flush()

    writer = BackgroundWriter(Lines(sys.argv[1]))
    for step in range(100):
        writer.log({"loss": step})
"""
IN_C = """
    import ctypes
    semaphore = ctypes.create_string_buffer(64)
    libc = ctypes.CDLL(None)
    libc.sem_init(semaphore, 0, 0)
    print("ready", flush=True)
    while True:
        libc.sem_wait(semaphore)
"""
IN_A_LOOP = """
    print("ready", flush=True)
    while True:
        time.sleep(0.01)
"""


def terminated(program: str, log: Path, *, after: str = "ready") -> subprocess.Popen[str]:
    """The ended process of ``program``, to which SIGTERM was sent once it had said ``after``."""
    command = [sys.executable, "-c", textwrap.dedent(program), str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().strip() == after
            process.send_signal(signal.SIGTERM)
            process.wait(LIMIT_S)
        finally:
            process.kill()
    return process


def lines_of(log: Path) -> list[str]:
    return log.read_text().splitlines()


ALL = [str(step) for step in range(100)]


@pytest.mark.parametrize(
    ("ending", "code"), [("", 0), ("sys.exit(3)", 3), ("raise ValueError('bad sample')", 1), ("os.kill(0, 0)", 0)]
)
def test_nothing_is_lost_when_the_program_ends(ending: str, code: int, tmp_path: Path) -> None:
    done = run_python(textwrap.dedent(PROGRAM) + ending, str(tmp_path / "log"), ends=code)

    assert lines_of(tmp_path / "log") == ALL
    assert ("bad sample" in done.stderr) is (code == 1)


@pytest.mark.parametrize("then", [IN_C, IN_A_LOOP], ids=["in_a_call_of_c", "in_python"])
def test_nothing_is_lost_when_sigterm_ends_it(then: str, tmp_path: Path) -> None:
    process = terminated(PROGRAM + then, tmp_path / "log")

    assert process.returncode == -signal.SIGTERM
    assert lines_of(tmp_path / "log") == ALL


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_sigterm_handler_of_the_program_decides(when: str, tmp_path: Path) -> None:
    handler = "\n    signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
    program = PROGRAM.replace("    class Lines", handler + "    class Lines") if when == "before" else PROGRAM + handler

    process = terminated(program + IN_A_LOOP, tmp_path / "log")

    assert process.returncode == 9
    assert lines_of(tmp_path / "log") == ALL


def test_sigterm_ends_it_in_time_where_storage_does_not_answer(tmp_path: Path) -> None:
    hung = PROGRAM.replace("time.sleep(0.002)", "time.sleep(1000)")

    process = terminated(hung + IN_C, tmp_path / "log")

    assert process.returncode == -signal.SIGTERM


def test_a_forked_child_writes_nothing_and_ends_as_ever(tmp_path: Path) -> None:
    child = """
    child = os.fork()
    if child == 0:
        writer.log({"loss": "of the child"})
        assert writer.drain(1) and writer.close(1)
        signal.pause()
    os.kill(child, signal.SIGTERM)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    writer.log({"loss": code})
    """

    run_python(PROGRAM + child, str(tmp_path / "log"))

    assert lines_of(tmp_path / "log") == [*ALL, str(-signal.SIGTERM)]


def test_a_signal_of_another_kind_is_the_programs(tmp_path: Path) -> None:
    program = "\n    got = []\n    signal.signal(signal.SIGUSR1, lambda *_: got.append(1))\n"
    program += "\n    os.kill(os.getpid(), signal.SIGUSR1)\n    time.sleep(0.1)\n    print(got, flush=True)\n"

    done = run_python(PROGRAM + program, str(tmp_path / "log"))

    assert done.stdout == "[1]\n"
