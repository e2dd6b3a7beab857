"""Xids the driver reports while the job runs, from the kernel's ring buffer where it may be read."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from unhang.knowledge.hardware.xid import find_xid
from unhang.watch.machine.counters import KernelPaths, kernel_records

MAX_XIDS = 16


class Xids:
    """Xids since the previous sample."""

    def __init__(self, places: KernelPaths) -> None:
        self._number = -1
        with suppress(OSError):
            self._number = os.open(places.kernel, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._number, 0, os.SEEK_END)

    def sample(self) -> dict[str, Any]:
        """``xids``: code and bus of each, and the process where the driver names one."""
        found = []
        for record in kernel_records(self._number) if self._number >= 0 else ():
            told = find_xid(record)
            if told is not None:
                of = {"pid": told.pid} if told.pid is not None else {}
                found.append({"bus": told.bus, "code": told.code, **of})
        return {"xids": found[-MAX_XIDS:]} if found else {}
