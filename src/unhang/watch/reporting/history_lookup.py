"""The history beside a run: read as it begins, added to as it ends, each in a process of its own with a limit."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress

import msgspec

from unhang.history.run import RunEnding
from unhang.watch import side_process

READ_S = 10.0
KEEP_S = 1.5
"""The end of the command waits for the watcher's last words, and those for this."""


class HistoryLookup:
    """What earlier runs say of hosts and cards, asked for once."""

    def __init__(self) -> None:
        self._content = b""
        self._deadline = time.monotonic() + READ_S
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError):
            self._process = side_process.start(["unhang.history", "guilty"])

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
            side_process.end(self._process)
            self._process = None


def add_run(ending: RunEnding, limit_s: float = KEEP_S) -> bool:
    """Add a run to the history; False where that did not work within ``limit_s``."""
    try:
        process = side_process.start(["unhang.history", "add"], told=msgspec.json.encode(ending))
    except OSError:
        return False
    with suppress(subprocess.TimeoutExpired):
        process.wait(limit_s)
    side_process.end(process)
    return process.returncode == 0
