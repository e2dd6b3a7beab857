"""What a process waits for outside of the job: the peer, the holder of a lock, the child that ended."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from unhang.watch.process_state.external_waits import find_external_waits
from unhang.watch.process_state.proc_processes import children_of
from unhang.wire.documents.bundle import BundleManifest, EndedChild, ExternalWaits, read_manifest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
LIMIT_S = 20.0


@contextmanager
def running(code: str, *arguments: str, ready: bool = False) -> Iterator[int]:
    """A program; once it has printed a line where that is awaited."""
    with subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert not ready or process.stdout.readline()
            yield process.pid
        finally:
            process.kill()


def seen(pid: int, key: str, wanted: Callable[[Any], bool] = bool, stack: str = "") -> Any:
    """What is told of it, as soon as it is ``wanted``."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        told = getattr(find_external_waits(pid, stack), key)
        if wanted(told):
            return told
        time.sleep(0.02)
    raise AssertionError(f"{key} of {pid}: {find_external_waits(pid)}")


def seen_children(pid: int) -> tuple[int, ...]:
    end = time.monotonic() + LIMIT_S
    while not (found := children_of(pid)) and time.monotonic() < end:
        time.sleep(0.02)
    return found


RECEIVES = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])){}); s.recv(1)"


@pytest.mark.parametrize("limit", ["", ", timeout=60"], ids=["recv", "poll"])
def test_the_peer_of_the_call_it_sleeps_in_is_named(limit: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with running(RECEIVES.format(limit), str(port)) as pid:
            assert seen(pid, "peers") == (f"127.0.0.1:{port}",)


def test_a_connection_that_is_only_open_is_nobody_it_waits_for() -> None:
    sleeps = RECEIVES.format("").replace("s.recv(1)", "import time; print('on', flush=True); time.sleep(60)")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        with subprocess.Popen([sys.executable, "-c", sleeps, port], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            told = find_external_waits(process.pid)
            process.kill()
    assert told == ExternalWaits()


HOLDS = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); {}"


@pytest.mark.parametrize("asks_again", [False, True], ids=["waits", "asks-again"])
def test_the_holder_of_a_file_lock_is_named(tmp_path: Path, asks_again: bool) -> None:
    path = tmp_path / "data.lock"
    began_s = time.time()
    asks = "import time; time.sleep(60)" if asks_again else HOLDS.format("")
    stack = "acquire (/venv/lib/python3.12/site-packages/filelock/_api.py:332)" if asks_again else ""
    with running(HOLDS.format("time.sleep(60)"), str(path), ready=True) as holder, running(asks, str(path)) as pid:
        told = seen(pid, "locks", lambda locks: any(lock.path == str(path) for lock in locks), stack)
    (lock,) = [lock for lock in told if lock.path == str(path)]
    assert lock.pid == holder
    assert lock.command.startswith("python")
    assert began_s - 2 <= lock.started_s <= time.time() + 2  # the kernel counts it in ticks since it started itself


def test_locks_of_others_are_not_told_of_who_asks_for_none(tmp_path: Path) -> None:
    holds = HOLDS.format("time.sleep(60)")
    with running(holds, str(tmp_path / "x.lock"), ready=True), running("import time; time.sleep(60)") as pid:
        assert find_external_waits(pid, "sleep (/job/train.py:3)") == ExternalWaits()


IN_SQLITE = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
db.execute("begin immediate")
print(flush=True)
time.sleep(60)
"""


def test_a_lock_inside_a_library_in_c_is_named_by_the_file_that_both_have_open(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    path.touch()
    with running(IN_SQLITE, str(path), ready=True) as holder, running(IN_SQLITE, str(path)) as pid:
        (lock,) = seen(pid, "locks")
    assert (lock.path, lock.pid) == (str(path), holder)


def test_arguments_of_the_holder_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    holds = HOLDS.format("time.sleep(60)")
    with running(holds, str(path), "--token=s3cret", ready=True), running(HOLDS.format(""), str(path)) as pid:
        assert "s3cret" not in repr(seen(pid, "locks"))


@pytest.mark.parametrize(("end", "number", "code"), [("os.kill(os.getpid(), 9)", 9, 0), ("os._exit(3)", 0, 3)])
def test_a_child_that_ended_is_told_with_its_signal(end: str, number: int, code: int) -> None:
    parent = f"import os, time\nif not os.fork():\n    {end}\ntime.sleep(60)"
    with running(parent) as pid:
        (child,) = seen(pid, "ended_children")
    assert (child.signal, child.exit_code) == (number, code)


PARENT = "import subprocess, sys\np = subprocess.Popen([sys.executable, '-S', '-c', {!r}], stdin=-1, stdout=-1)\n{}"
ECHOES = "import sys\nfor line in sys.stdin: print(line * 3, flush=True)"


def test_a_child_that_waits_to_write_to_who_waits_to_write_to_it_is_told() -> None:
    with running(PARENT.format(ECHOES, "while True: p.stdin.write(b'x' * 50 + b'\\n')")) as pid:
        (child,) = seen(pid, "children", lambda children: children and children[0].waits)
        told = find_external_waits(pid)
    assert (told.pipe, told.pipe_ends, child.waits) == ("write", (child.pid,), "write")


def test_a_child_that_works_waits_in_no_pipe() -> None:
    with running(PARENT.format("while True: pass", "p.stdout.read()")) as pid:
        (child,) = seen(pid, "children")
        told = find_external_waits(pid)
        os.kill(child.pid, signal.SIGKILL)
    assert (told.pipe, told.pipe_ends, child.waits) == ("read", (child.pid,), "")


@pytest.mark.parametrize(("stack", "is_told"), [("wait (/lib/python3.12/subprocess.py:1264)", True), ("", False)])
def test_children_are_told_of_who_waits_for_a_program(stack: str, *, is_told: bool) -> None:
    with running(PARENT.format("import time; time.sleep(60)", "p.wait()")) as pid:
        (child,) = seen_children(pid)
        told = find_external_waits(pid, stack).children
        os.kill(child, signal.SIGKILL)
    assert [one.pid for one in told] == ([child] if is_told else [])


def test_a_child_that_is_stopped_is_told_and_no_longer_once_it_goes_on() -> None:
    with running(PARENT.format("import time; time.sleep(60)", "p.wait()")) as pid:
        (child,) = seen_children(pid)
        os.kill(child, signal.SIGSTOP)
        (told,) = seen(pid, "children")
        os.kill(child, signal.SIGCONT)
        seen(pid, "children", lambda children: not children)
        os.kill(child, signal.SIGKILL)
    assert (told.pid, told.state) == (child, "T")


def test_a_process_that_is_gone_tells_nothing() -> None:
    assert find_external_waits(2**22 + 1) == ExternalWaits()


def manifest(awaits: object) -> object:
    document = {"schema": "unhang.bundle/1", "processes": [{"rank": 0, "awaits": awaits}]}
    return read_manifest(json.dumps(document).encode(), source="bundle.json")


def test_the_manifest_keeps_it() -> None:
    read = manifest({"peers": ["10.0.0.1:80"], "ended_children": [{"pid": 5, "signal": 9}]})
    assert isinstance(read, BundleManifest)
    assert read.processes[0].awaits == ExternalWaits(peers=("10.0.0.1:80",), ended_children=(EndedChild(5, 9),))


@pytest.mark.parametrize(
    "awaits", [{"locks": [{"path": "a\u0007", "pid": 1}]}, {"locks": [{"path": "a", "pid": 1, "started_s": -1}]}]
)
def test_a_manifest_with_what_cannot_be_is_not_believed(awaits: object) -> None:
    assert not isinstance(manifest(awaits), BundleManifest)
