"""Something to do before SIGTERM ends the process, also while the main thread stands in a collective.

Python runs a signal's handler in the main thread, once it is back from C++: a rank that waits in a collective would no
longer end at all. So a thread of ours hears of the signal (``signal.set_wakeup_fd``), does what is to be done within a
limit, and ends the process by the same signal. A program with a SIGTERM handler of its own is left alone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
import weakref
from contextlib import suppress
from types import FrameType
from typing import Protocol

LIMIT_S = 5.0
"""Launchers kill 10 to 30 s after SIGTERM what still lives."""


class EndListener(Protocol):
    """Something that wants to hear of it."""

    def before_the_end(self, limit_s: float) -> None:
        """Do it, within ``limit_s``."""


_waiting: weakref.WeakSet[EndListener] = weakref.WeakSet()
_pipe: tuple[int, int] | None = None
_masks: dict[int, set[int | signal.Signals]] = {}
"""Of threads that fork: what they had blocked before."""


def notify_before_end(one: EndListener) -> None:
    """``one`` is notified before SIGTERM ends this process. Only where nobody else decided about SIGTERM, and from the
    main thread; elsewhere it is not notified, and nothing changes."""
    _waiting.add(one)
    if _pipe is None and threading.current_thread() is threading.main_thread():
        with suppress(OSError, ValueError):
            _listen()


def _listen() -> None:
    global _pipe  # noqa: PLW0603 - one a process, as signals are
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    if before != -1:  # somebody else hears signals this way
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)
        return
    if _pipe is None:
        os.register_at_fork(before=_fork_begins, after_in_parent=_forked, after_in_child=_leave_child)
    _pipe = (reading, writing)
    signal.signal(signal.SIGTERM, _in_main_thread)
    signal.siginterrupt(signal.SIGTERM, False)
    threading.Thread(target=_hear, args=(reading,), name="unhang-ending", daemon=True).start()


def _in_main_thread(number: int, _: FrameType | None) -> None:
    """Our thread has heard of it already, unless somebody took the wake-up away since."""
    if _pipe is not None:
        with suppress(OSError):
            os.write(_pipe[1], bytes((number,)))


def _hear(reading: int) -> None:
    while True:
        heard = os.read(reading, 64)
        if not heard:
            return
        # A handler the program set since then decides.
        if signal.SIGTERM in heard and signal.getsignal(signal.SIGTERM) is _in_main_thread:
            _end()


def _end() -> None:
    deadline = time.monotonic() + LIMIT_S
    for one in list(_waiting):
        with suppress(Exception):  # the process ends as it was told to
            one.before_the_end(max(0.1, deadline - time.monotonic()))
    # Python's own signal.signal is for the main thread, which may stand in C++.
    ctypes.CDLL(None).signal(int(signal.SIGTERM), ctypes.c_void_p(0))
    os.kill(os.getpid(), signal.SIGTERM)


def _fork_begins() -> None:
    """A child that gets SIGTERM before it let our pipe go would say so to its parent's thread."""
    if _pipe is not None:
        _masks[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _forked() -> None:
    mask = _masks.pop(threading.get_ident(), None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _leave_child() -> None:
    """A forked child has no thread of ours: SIGTERM ends it as it would have without us."""
    try:
        _let_go()
    finally:
        _forked()


def _let_go() -> None:
    global _pipe
    _waiting.clear()
    if _pipe is None:
        return
    pipe, _pipe = _pipe, None
    with suppress(ValueError):
        before = signal.set_wakeup_fd(-1)
        if before not in (-1, pipe[1]):
            signal.set_wakeup_fd(before)
        if signal.getsignal(signal.SIGTERM) is _in_main_thread:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number in pipe:
        with suppress(OSError):
            os.close(number)
