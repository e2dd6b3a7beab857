"""The sampler as the watcher sees it: started once, asked for a sample of a stall, ended with the run."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from unhang.watch import private_files, side_process

LAST_S = 0.7
"""So long it may take to keep NCCL's last lines."""
AGAIN_S = 5.0
"""Between two requests."""


class SamplerProcess:
    """Nothing waits for it; one that fails is not started again."""

    def __init__(self, folder: Path, records: Path) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = 0.0
        path = folder / ".unhang" / "machine.log"
        with suppress(OSError):
            private_files.append(path, b"")
        with suppress(OSError), path.open("ab") as log:
            words = ["unhang.watch.machine.sampler", str(folder), str(records), str(os.getpid())]
            self._process = side_process.start_logged(words, log)

    def ask(self) -> None:
        """A sample now: ranks began to wait."""
        if self._process is None or self._process.poll() is not None or time.monotonic() < self._asked + AGAIN_S:
            return
        self._asked = time.monotonic()
        self._process.send_signal(signal.SIGUSR1)

    def end(self) -> None:
        """Let it keep what it has, and end it."""
        if self._process is not None:
            side_process.end(self._process, ask_s=LAST_S)
