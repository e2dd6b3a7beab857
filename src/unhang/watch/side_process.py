"""Processes of ours beside the watcher: whatever they wait for (a dead disk, a home that is gone), it does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

KILL_LIMIT_S = 0.3
"""So long a killed process is waited for; one that hangs in the kernel is left to it."""


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


def start_logged(words: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    """``python -m WORDS…`` whose troubles go to ``log``. Raises OSError when no process can be started."""
    return _popen(words, subprocess.DEVNULL, log, log)


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


def _popen(words: Sequence[str], stdin: int, out: int | IO[bytes], err: int | IO[bytes]) -> subprocess.Popen[bytes]:
    """Away from the folder of the job, where a module of the user's could take the place of one of ours."""
    return subprocess.Popen(
        [sys.executable, "-m", *words], stdin=stdin, stdout=out, stderr=err, cwd="/", start_new_session=True
    )
