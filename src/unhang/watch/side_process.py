"""Processes of ours beside the watcher: whatever they wait for (a dead disk, a home that is gone), it does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

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
        with suppress(OSError), private_files.open_log(log) as file:
            self._process = _popen(words, subprocess.DEVNULL, file, file, environment)

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
        """A sample now: ranks began to wait."""
        if time.monotonic() >= self._asked + SAMPLE_AGAIN_S:
            self._asked = time.monotonic()
            self.process.signal(signal.SIGUSR1)


def serve_metrics(folder: Path, records: Path, where: str) -> SideProcess | None:
    """The process that serves the run's measures; None where the user asked for none."""
    words = ["unhang.view.metrics_server", str(folder), str(records), where]
    return SideProcess(words, folder / ".unhang" / "metrics.log", last_s=METRICS_LAST_S) if where else None


class HistoryLookup:
    """What earlier runs say of hosts and cards, asked for once."""

    def __init__(self) -> None:
        self._content = b""
        self._deadline = time.monotonic() + HISTORY_READ_S
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError):
            self._process = start(["unhang.history", "guilty"])

    def content(self) -> bytes:
        """``machine/history.json``; empty while it is not known, and where it cannot be read."""
        self.reap()
        return self._content

    def reap(self) -> None:
        """Take the answer of the process and let it go, once it has one or has had its time."""
        if self._process is not None and (self._process.poll() is not None or time.monotonic() > self._deadline):
            if self._process.returncode == 0 and self._process.stdout is not None:
                self._content = self._process.stdout.read()
            self.end()

    def end(self) -> None:
        """Nobody will ask any more."""
        if self._process is not None:
            end(self._process)
            self._process = None


def add_to_history(ending: RunEnding, limit_s: float = HISTORY_KEEP_S) -> bool:
    """Add a run to the history; False where that did not work within ``limit_s``."""
    try:
        process = start(["unhang.history", "add"], told=msgspec.json.encode(ending))
    except OSError:
        return False
    with suppress(subprocess.TimeoutExpired):
        process.wait(limit_s)
    end(process)
    return process.returncode == 0


def start(words: Sequence[str], *, told: bytes = b"") -> subprocess.Popen[bytes]:
    """``python -m WORDS…`` with ``told`` on its standard input; its standard output is read by the caller.

    Raises:
        OSError: no process can be started.
    """
    process = _popen(words, subprocess.PIPE, subprocess.PIPE, subprocess.DEVNULL)
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.write(told)
        process.stdin.close()
    process.stdin = None  # communicate() would write to it
    return process


def end(process: subprocess.Popen[bytes], *, ask_s: float = 0.0) -> None:
    """End it, with what it started. ``ask_s``: so long it may take to end by itself once asked; 0: it is not asked."""
    if ask_s > 0 and process.poll() is None:
        process.send_signal(signal.SIGTERM)
        _wait(process, ask_s)
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        _wait(process, KILL_LIMIT_S)
    if process.stdout is not None:
        process.stdout.close()


def _wait(process: subprocess.Popen[bytes], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)


def _popen(
    words: Sequence[str],
    stdin: int,
    out: int | IO[bytes],
    err: int | IO[bytes],
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Away from the folder of the job, where a module of the user's could take the place of one of ours."""
    command = [sys.executable, "-m", *words]
    return subprocess.Popen(
        command, stdin=stdin, stdout=out, stderr=err, cwd="/", start_new_session=True, env=environment
    )
