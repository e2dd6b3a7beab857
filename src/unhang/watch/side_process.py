"""Processes of ours beside the watcher: whatever they wait for (a dead disk, a home that is gone), it does not."""

from __future__ import annotations

import enum
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from unhang.host.own_process import end_with_parent
from unhang.watch import private_files

if TYPE_CHECKING:
    from unhang.history.run import RunEnding

KILL_LIMIT_S = 0.3
"""So long a killed process is waited for; one that hangs in the kernel is left to it."""
HISTORY_READ_S = 10.0
HISTORY_KEEP_S = 1.5
"""The end of the command waits for the watcher's last words, and those for this."""
SAMPLER_LAST_S, METRICS_LAST_S = 0.7, 1.0
"""So long the sampler may take to keep NCCL's last lines, and the other to send its last measures."""
TAKE_S = 0.1
"""To read what a process has printed that ended."""
HUNG_S, PAUSE_S = 15.0, 2.0
"""A kept process that says nothing for so long is ended; between two starts."""
SAMPLE_AGAIN_S = 5.0
"""Between two requests for a sample of the machine."""


class SideProcess:
    """One that is started once for a run and ended with it; nothing where it cannot be started, or has ended."""

    def __init__(
        self, words: Sequence[str], log: Path, *, last_s: float = 0.0, environment: Mapping[str, str] | None = None
    ) -> None:
        """``log``: where its troubles go; ``last_s``: so long it may take to end by itself."""
        self._process: subprocess.Popen[bytes] | None = None
        self._last_s = last_s
        with suppress(OSError), open_log(log) as file:
            self._process = start(words, subprocess.DEVNULL, file, file, environment)

    def reap(self) -> bool:
        """It may have ended by itself. Whether it runs."""
        if self._process is not None and self._process.poll() is not None:
            self._process = None
        return self._process is not None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        if self.reap() and self._process is not None:
            self._process.send_signal(number)

    def end(self) -> None:
        """Let it do the last things, and end it."""
        if self._process is not None:
            end(self._process, ask_s=self._last_s)
            self._process = None


class MachineSampling:
    """The process that samples the machine."""

    def __init__(self, folder: Path, records: Path) -> None:
        words = ["unhang.watch.machine.sampler", str(folder), str(records), str(os.getpid())]
        self.process = SideProcess(words, folder / ".unhang" / "machine.log", last_s=SAMPLER_LAST_S)
        self._asked = 0.0

    def ask(self) -> None:
        """A sample now, unless one was just asked for: ranks wait, and nothing was said of it yet."""
        if time.monotonic() >= self._asked + SAMPLE_AGAIN_S:
            self._asked = time.monotonic()
            self.process.signal(signal.SIGUSR1)


def serve_metrics(folder: Path, records: Path, where: str) -> SideProcess | None:
    """The process that serves the run's measures; None where the user asked for none."""
    words = ["unhang.view.metrics_server", str(folder), str(records), where]
    return SideProcess(words, folder / ".unhang" / "metrics.log", last_s=METRICS_LAST_S) if where else None


class KeptProcess:
    """One that is started again when it ended or says nothing for long. It holds nothing that has to be saved."""

    def __init__(self, words: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self._words, self._log, self._environment = words, log, environment
        self._running: SideProcess | None = None
        self._began = float("-inf")

    def keep(self, told_ns: int | None) -> None:
        """Start one where there is none. ``told_ns``: when it last said something, None: never."""
        if self._running is not None and not self._running.reap():
            self._running = None
        if self._running is not None and time.monotonic() - max(self._began, (told_ns or 0) / 1e9) > HUNG_S:
            self.end()
        if self._running is None and time.monotonic() - self._began > PAUSE_S:
            self._began = time.monotonic()
            self._running = SideProcess(self._words, self._log, environment=self._environment)

    def end(self) -> None:
        """End it now."""
        if self._running is not None:
            self._running.end()
            self._running = None


class SideQuestion:
    """One that prints an answer and ends; where it fails, cannot be started or takes too long there is none."""

    def __init__(self, words: Sequence[str], *, told: bytes | None = b"", limit_s: float = float("inf")) -> None:
        """``told`` is on its standard input (None: it is told later); nobody waits for it, and after ``limit_s`` it is
        ended."""
        self._answer: bytes | None = None
        self.printed = b""
        """All of it, also of one that was ended."""
        self._deadline = time.monotonic() + limit_s
        self.process: subprocess.Popen[bytes] | None = None
        with suppress(OSError):
            self.process = start(words, subprocess.PIPE, subprocess.PIPE, subprocess.DEVNULL)
            assert self.process.stdin is not None
            if told is not None:
                self.process.stdin.write(told)
                self.process.stdin.close()
        if self.process is not None and told is not None:
            self.process.stdin = None  # communicate() would write to it

    def answer(self, wait_s: float = 0.0, told: bytes | None = None) -> bytes | None:
        """What it printed, once it has ended well. ``wait_s``: so long it is waited for, and ended then.

        ``told``: to one that was told nothing when it began.
        """
        process = self.process
        if process is None or not (wait_s > 0 or process.poll() is not None or time.monotonic() > self._deadline):
            return self._answer
        try:
            self.printed, _ = process.communicate(told, timeout=max(wait_s, TAKE_S))
            self._answer = self.printed if process.returncode == 0 else None
        except subprocess.TimeoutExpired as late:
            self.printed = late.output or b""
        self.end()
        return self._answer

    def end(self) -> None:
        """Nobody will ask any more."""
        if self.process is not None:
            end(self.process)
            self.process = None


def ask_history() -> SideQuestion:
    """What earlier runs say of hosts and cards: ``machine/history.json``."""
    return SideQuestion(["unhang.history", "guilty"], limit_s=HISTORY_READ_S)


class Recorded(enum.Enum):
    """What became of a run that was to be added to the history."""

    KEPT = "kept"
    BESIDE = "beside"
    """It lies beside the history, and follows with the next run."""
    LOST = "lost"


def start_recording() -> SideQuestion:
    """The process that :func:`add_to_history` tells of a run; until then it loads what it needs."""
    return SideQuestion(["unhang.history", "add"], told=None)


def add_to_history(ending: RunEnding, limit_s: float = HISTORY_KEEP_S, begun: SideQuestion | None = None) -> Recorded:
    """Add a run to the history, within ``limit_s``."""
    question = begun or start_recording()
    question.answer(limit_s, told=msgspec.json.encode(ending))
    said = question.printed.decode("ascii", "replace").split()
    return next((each for each in Recorded if each.value in said), Recorded.LOST)


def end(process: subprocess.Popen[bytes], *, ask_s: float = 0.0) -> None:
    """End it, with what it started. ``ask_s``: so long it may take to end by itself once asked; 0: it is not asked."""
    if ask_s > 0 and process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(ask_s)
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError, subprocess.TimeoutExpired):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(KILL_LIMIT_S)
    if process.stdout is not None:
        process.stdout.close()


def open_log(path: Path) -> FileIO:
    """Where the troubles of a process go; nowhere where its folder takes no file."""
    with suppress(OSError):
        return private_files.open_log(path)
    return private_files.open_log(Path(os.devnull))


def start(
    words: Sequence[str],
    stdin: int,
    out: int | IO[bytes],
    err: int | IO[bytes],
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """``python -m WORDS…``, away from the job's folder, where a module of the user's could take the place of ours.

    Raises:
        OSError: no process can be started.
    """
    command = [sys.executable, "-m", *words]
    return subprocess.Popen(
        command, stdin=stdin, stdout=out, stderr=err, cwd="/", start_new_session=True, env=environment
    )


LIMIT_S = 60.0
MEMORY = 4 << 30


class ForkedChild:
    """It does ``work`` and ends; nothing waits for it, and it dies with the watcher."""

    def __init__(self, work: Callable[[], None], *, limit_s: float = LIMIT_S, memory: int = MEMORY) -> None:
        """Fork. The watcher has one thread, and everything the child needs is loaded already. Raises OSError."""
        sys.stdout.flush()
        sys.stderr.flush()
        self.failed = False
        """Something of ours went wrong in it; its error is in ``.unhang/watcher.log``."""
        self.pidfd: int | None = None
        """Readable once it has ended."""
        self._ended = False
        self._deadline = time.monotonic() + limit_s
        watcher = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _run(work, memory, watcher)
        with suppress(OSError, AttributeError):
            self.pidfd = os.pidfd_open(self.pid)

    def over(self) -> bool:
        """Whether it has ended; one that takes too long is ended."""
        if not self._ended:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.failed = status != 0
                self._close()
            elif time.monotonic() > self._deadline:
                self.end()
                self.failed = True
        return self._ended

    def wait(self, limit_s: float = float("inf")) -> None:
        """Until it has ended; after ``limit_s`` it is ended."""
        self._deadline = min(self._deadline, time.monotonic() + limit_s)
        while not self.over():
            time.sleep(0.02)

    def end(self) -> None:
        """End it and what it started now."""
        if self._ended:
            return
        for kill in (os.killpg, os.kill):  # it may not have its own group yet
            with suppress(ProcessLookupError):
                kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self._close()

    def _close(self) -> None:
        self._ended = True
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None


def _run(work: Callable[[], None], memory: int, watcher: int) -> None:
    """Never returns."""
    code = 1
    try:
        os.setpgid(0, 0)
        if not end_with_parent(watcher):
            return
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - the process edge
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
