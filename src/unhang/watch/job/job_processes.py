"""The processes of one recorded job, found by a mark in their environment: also those that lost their parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterable, Iterator

from unhang.watch.process_state.proc_processes import PROC, lives, read_environment

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37


def processes_with_mark(mark: str) -> tuple[int, ...]:
    """Ids of the live processes that carry ``mark`` (``NAME=value``) in their environment, in ascending order."""
    name, _, value = mark.partition("=")
    pids = sorted(int(folder.name) for folder in PROC.iterdir() if folder.name.isdigit())
    return tuple(pid for pid in pids if (read_environment(pid) or {}).get(name) == value)


def kill_marked(mark: str, known: frozenset[int], *, limit_s: float = 5.0) -> tuple[int, ...]:
    """End every marked process, stopped ones too, and reap those that fell to us. Returns the ids left alive.

    All are stopped first, so that none sees another die and writes about it into the evidence. ``known`` are ids seen
    earlier: the ones to reap.
    """
    for pid in processes_with_mark(mark):
        _send(pid, signal.SIGSTOP)
    deadline = time.monotonic() + limit_s
    left: tuple[int, ...] = ()
    while time.monotonic() < deadline:
        left = tuple(pid for pid in processes_with_mark(mark) if lives(pid))
        for pid in left:
            _send(pid, signal.SIGKILL)
        reap(known | set(left))
        if not left:
            return ()
        time.sleep(0.05)
    return left


def _send(pid: int, number: int) -> None:
    if pid != os.getpid():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def reap(pids: Iterable[int], *, limit_s: float = 0.0) -> None:
    """Reap the given processes where they became our children and end within ``limit_s``; others are left alone."""
    left, deadline = set(pids), time.monotonic() + limit_s
    while left := {pid for pid in left if _still_ours(pid)}:
        if time.monotonic() >= deadline:
            return
        time.sleep(0.02)


def _still_ours(pid: int) -> bool:
    """Whether it is a child of ours that has not ended; reaps one that has."""
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    return False


@contextlib.contextmanager
def adopting_orphans() -> Iterator[None]:
    """While inside, processes whose parents die become our children, so that they can be reaped."""
    libc = ctypes.CDLL(None)
    before = ctypes.c_int(0)
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)
