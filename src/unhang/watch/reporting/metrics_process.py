"""The process that serves a run's measures, as the watcher sees it: started once, ended with the run."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

from unhang.watch import private_files, side_process

LAST_S = 1.0
"""So long it may take to send its last measures."""


class MetricsProcess:
    """Nothing where the user asked for none."""

    def __init__(self, folder: Path, records: Path, where: str) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if not where:
            return
        with suppress(OSError), private_files.open_log(folder / ".unhang" / "metrics.log") as log:
            words = ["unhang.view.metrics_server", str(folder), str(records), where]
            self._process = side_process.start_logged(words, log)

    def reap(self) -> None:
        """It may have ended by itself: the port was taken."""
        if self._process is not None and self._process.poll() is not None:
            self._process = None

    def end(self) -> None:
        """Let it say the last things, and end it."""
        if self._process is not None:
            side_process.end(self._process, ask_s=LAST_S)
            self._process = None
