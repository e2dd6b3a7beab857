"""The transport process as the watcher sees it: started, started again when it ended or says nothing, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

HUNG_S = 15.0
PAUSE_S = 2.0


class TransportProcess:
    """Keeps one transport process running for the watcher."""

    def __init__(self, folder: Path, records: Path) -> None:
        self._folder, self._records = folder, records
        self._running: subprocess.Popen[bytes] | None = None
        self._began = float("-inf")

    def keep(self, told_ns: int | None) -> None:
        """Start one where there is none. ``told_ns``: when it last said something, None: never."""
        if self._running is not None and self._running.poll() is not None:
            self._running = None
        if self._running is not None and time.monotonic() - max(self._began, (told_ns or 0) / 1e9) > HUNG_S:
            self.end()
        if self._running is None and time.monotonic() - self._began > PAUSE_S:
            self._start()

    def _start(self) -> None:
        self._began = time.monotonic()
        with suppress(OSError), (self._folder / ".unhang" / "carrier.log").open("ab") as log:
            self._running = subprocess.Popen(
                [sys.executable, "-m", "unhang.watch.nodes.transport.transport_main", str(self._records)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                env={**os.environ, "TORCH_CPP_LOG_LEVEL": "FATAL", "OMP_NUM_THREADS": "1"},
            )

    def end(self) -> None:
        """It holds nothing that has to be saved."""
        running, self._running = self._running, None
        if running is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
