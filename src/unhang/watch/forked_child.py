"""A short-lived child of the watcher: whatever goes wrong in it, and however long it takes, ends with it."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress

from unhang.host.own_process import end_with_parent

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
