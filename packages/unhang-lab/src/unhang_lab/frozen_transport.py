"""A transport that moves no byte any more, inside a rank that goes on: asked for by a case, done by its script."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path


def wait_until(moment_s: float) -> None:
    """Sleep until a moment all ranks were told (seconds since the epoch), so that they act together."""
    time.sleep(min(2.0, max(0.0, moment_s - time.time())))


def freeze_transport() -> None:
    """Stop the threads that move Gloo's bytes, so that a collective everyone joined cannot finish.

    Each such thread gets a signal whose handler is libc's ``pause``: it sleeps in the handler for good, no privilege
    needed, while the rest of the process goes on. The fault of a network that swallows packets, on one machine.
    """
    libc = ctypes.CDLL(None)
    libc.signal(int(signal.SIGUSR1), ctypes.cast(libc.pause, ctypes.c_void_p))
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().startswith("gloo_tcp_loop"):
            _send_to_thread(libc, int(task.name))


def _send_to_thread(libc: ctypes.CDLL, thread: int) -> None:
    tgkill = {"x86_64": 234, "aarch64": 131}.get(os.uname().machine)
    if tgkill is not None:
        libc.syscall(tgkill, os.getpid(), thread, int(signal.SIGUSR1))
