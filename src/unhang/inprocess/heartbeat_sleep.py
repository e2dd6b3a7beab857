"""What our thread sleeps on between two beats: time, another thread, or a byte in the wake FIFO."""

from __future__ import annotations

import _thread
import os
import select
from contextlib import suppress

from unhang.inprocess.capture.high_descriptors import OpenFile
from unhang.inprocess.internal_errors import log_internal_error

_FLAGS = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW


class HeartbeatSleep:
    """Without a wake FIFO (impossible on this file system, closed by the program) a lock with a time limit does."""

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._lock.acquire()
        self._wake_fifo: OpenFile | None = None
        self._path = ""
        self._poll = select.poll()

    def create_wake_fifo(self, path: str) -> None:
        """Make the wake FIFO at ``path``. Leaves a line where that is impossible."""
        try:
            with suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108  of the program this process ran before it called exec
            os.mkfifo(path, 0o600)
            bell = OpenFile(os.open(path, _FLAGS))
            self._poll.register(bell.number, select.POLLIN)
        except OSError as error:
            log_internal_error("no bell: dumps come at the next beat", error)
            return
        self._wake_fifo, self._path = bell, path

    def sleep(self, limit_s: float) -> None:
        """Until ``limit_s`` has passed or somebody woke us."""
        bell = self._wake_fifo
        if bell is None:
            self._lock.acquire(True, limit_s)
            return
        if not self._poll.poll(limit_s * 1e3):
            return
        if not bell.is_still_ours():
            self._wake_fifo = None
            self._lock.acquire(True, limit_s)  # never twice at once
            return
        with suppress(OSError):
            os.read(bell.number, 4096)

    def wake(self) -> None:
        """End the sleep, from another thread of this process."""
        bell = self._wake_fifo
        with suppress(RuntimeError):
            self._lock.release()
        if bell is not None and bell.is_still_ours():
            with suppress(OSError):
                os.write(bell.number, b"\0")

    def end(self) -> None:
        """Nobody sleeps here any more: remove the wake FIFO."""
        bell, self._wake_fifo = self._wake_fifo, None
        if bell is not None:
            bell.close()
            with suppress(OSError):
                os.unlink(self._path)  # noqa: PTH108

    def leave_child(self) -> None:
        """In a forked child: the wake FIFO is its parent's."""
        bell, self._wake_fifo = self._wake_fifo, None
        if bell is not None:
            bell.close()
