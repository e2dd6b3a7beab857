"""Small processes beside the command, forked from its runner: they hold nothing of it, and end by themselves."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable, Sequence

_FIRST_FREE = 10
"""Numbers below may be standard streams that somebody closed."""


def fork_helper(work: Callable[[], int]) -> int:
    """The pid of a process that does ``work`` and ends with its exit code; no signal that can be blocked reaches it.

    Raises:
        OSError: there is no room for a process.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            code = work()
        finally:
            os._exit(code)
    return pid


def detach(kept: Sequence[int] = (), streams: Sequence[int] = (0, 1, 2)) -> None:
    """Hold nothing of the job but ``kept``: another stream's pipe must end without us. ``streams`` lead nowhere."""
    at = 3
    for number in (*sorted(kept), 1 << 16):
        os.closerange(at, number)
        at = number + 1
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in streams:
        os.dup2(nothing, number)
    os.chdir("/")


def new_pipe() -> tuple[int, int]:
    """Its reading and its writing end.

    Raises:
        OSError: there is no room for one.
    """
    ends = os.pipe2(os.O_CLOEXEC)
    if min(ends) >= _FIRST_FREE:
        return ends
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]
