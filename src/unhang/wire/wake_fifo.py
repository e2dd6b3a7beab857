"""The wake FIFO of a rank, beside its record. Whoever writes a byte to it ends our thread's sleep before its time."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

SUFFIX = ".bell"


def wake_all(folder: Path) -> None:
    """Wake our thread in every rank of the records folder ``folder``. Never blocks, never raises."""
    with suppress(OSError):
        for path in folder.glob(f"*{SUFFIX}"):
            _wake(path)


def _wake(path: Path) -> None:
    with suppress(OSError):  # nobody sleeps on it any more, or it is full of rings
        number = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.write(number, b"\0")
        finally:
            os.close(number)
