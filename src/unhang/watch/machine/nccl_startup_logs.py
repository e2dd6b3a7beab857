"""NCCL's lines of the start: the ranks write them beside their records, from where they are kept in the run folder.

NCCL writes as long as the job runs; what is beyond ``MAX_BYTES`` is cut off here, a few times a minute.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from unhang.watch import private_files
from unhang.wire.nccl_startup_logs import NCCL_LOG_FOLDER

MAX_BYTES = 256 << 10
MAX_FILES = 1_024


class NcclStartupLogs:
    """Of the ranks on this machine."""

    def __init__(self, records: Path, folder: Path) -> None:
        self._records, self._folder = records / NCCL_LOG_FOLDER, folder / NCCL_LOG_FOLDER
        self._kept: dict[str, int] = {}

    def keep(self) -> None:
        """Copy what is new; cut what is too long. What cannot be copied is left out."""
        with suppress(OSError):
            names = sorted(os.listdir(self._records))[:MAX_FILES]  # noqa: PTH208 - names are all that is wanted
            for name in names:
                if name.endswith(".log") and not name.startswith("."):
                    self._keep(name)

    def _keep(self, name: str) -> None:
        with suppress(OSError):
            number = os.open(self._records / name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(number, "rb") as file:
                size = os.fstat(number).st_size
                if size > MAX_BYTES:
                    os.ftruncate(number, MAX_BYTES)  # what it writes next lies behind a hole, and costs no memory
                if size == self._kept.get(name) or self._kept.get(name, 0) >= MAX_BYTES:
                    return
                content = file.read(MAX_BYTES)
            self._kept[name] = size
            if content:
                private_files.write_atomically(self._folder / name, content)
