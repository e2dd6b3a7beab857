"""The transport process as the watcher sees it: started, started again when it ended or says nothing, ended."""

from __future__ import annotations

import os
import time
from pathlib import Path

from unhang.watch.side_process import SideProcess

HUNG_S = 15.0
PAUSE_S = 2.0


class TransportProcess:
    """Keeps one transport process running for the watcher."""

    def __init__(self, folder: Path, records: Path) -> None:
        self._folder, self._records = folder, records
        self._running: SideProcess | None = None
        self._began = float("-inf")

    def keep(self, told_ns: int | None) -> None:
        """Start one where there is none. ``told_ns``: when it last said something, None: never."""
        if self._running is not None and not self._running.reap():
            self._running = None
        if self._running is not None and time.monotonic() - max(self._began, (told_ns or 0) / 1e9) > HUNG_S:
            self.end()
        if self._running is None and time.monotonic() - self._began > PAUSE_S:
            self._began = time.monotonic()
            self._running = SideProcess(
                ["unhang.watch.nodes.transport.transport_main", str(self._records)],
                self._folder / ".unhang" / "carrier.log",
                environment={**os.environ, "TORCH_CPP_LOG_LEVEL": "FATAL", "OMP_NUM_THREADS": "1"},
            )

    def end(self) -> None:
        """It holds nothing that has to be saved."""
        if self._running is not None:
            self._running.end()
            self._running = None
