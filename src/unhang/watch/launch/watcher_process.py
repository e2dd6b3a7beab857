"""The watcher as the command runner sees it: started, started again when it was killed, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from unhang.watch import side_process
from unhang.watch.launch.records_folder import watcher_lock

FAILURES = 20
"""So often it may fail by itself."""
CRASH_SIGNALS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGSYS}
"""A process that ends by one of these failed by itself; the other signals are sent to it."""
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 4.0
"""Before it is started again: twice as long each time it ended within a minute, never so long that a stall waits."""
LONG_LIFE_S = 60.0
EXIT_ALREADY_WATCHED = 3
"""Exit code of a watcher that found the lock taken."""


class WatcherProcess:
    """One watcher at a time: of all who may start it, the one that holds the lock watches."""

    def __init__(self, folder: Path, records: Path) -> None:
        self._folder, self._records = folder, records
        self._running: subprocess.Popen[bytes] | None = None
        self._pause_s, self._next = 0.0, 0.0
        self._began = 0.0
        self._failures = 0
        self.done = False

    @property
    def pid(self) -> int | None:
        """Of the one we started, while it lives."""
        return self._running.pid if self._running is not None else None

    @property
    def given_up(self) -> bool:
        """It failed too often."""
        return self._failures > FAILURES

    def is_running(self) -> bool:
        """Whether one watches, ours or that of another command runner."""
        if self._running is not None:
            return True
        lock = watcher_lock(self._records)
        free = lock.acquire()
        lock.release()
        return not free

    def keep(self) -> None:
        """Start one where there is none, not too often."""
        if self.done or self.given_up or self._running is not None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 1.0
        if not self.is_running():
            self._start()

    def ended(self, status: int) -> bool:
        """It was reaped. Whether it failed once too often, now."""
        running, self._running = self._running, None
        if running is None:
            return False
        code = running.returncode = os.waitstatus_to_exitcode(status)
        self.done = code == 0
        if time.monotonic() - self._began > LONG_LIFE_S:
            self._pause_s, self._failures = 0.0, 0
        failed = (code > 0 and code != EXIT_ALREADY_WATCHED) or -code in CRASH_SIGNALS
        self._failures += failed
        self._next = time.monotonic() + self._pause_s
        self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
        return failed and self._failures == FAILURES + 1

    def end(self) -> None:
        """End ours and what it started."""
        running, self._running = self._running, None
        if running is not None:
            side_process.end(running)

    def _start(self) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("UNHANG_RUN")}
        environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._began = time.monotonic()
        words = ["unhang.watch.watcher", str(self._folder), str(self._records)]
        with suppress(OSError), side_process.open_log(self._folder / ".unhang" / "watcher.log") as log:
            self._running = side_process.start(words, subprocess.DEVNULL, log, log, environment)
