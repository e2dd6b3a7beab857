"""The disks and file systems the run writes to and reads from: rates, free space, and whether they answer at all.

Asking a dead network file system for its free space never returns, so a thread of its own asks; what it is still
waiting for is told, and everything else goes on.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from unhang.report.printable import one_line
from unhang.watch.machine.counters import Counters, KernelPaths, rate
from unhang.watch.process_state.proc_processes import text_of

MAX_DEVICES = 16
LONGEST = 512
SECTOR = 512
SLOW_S = 1.0
"""An answer about free space takes microseconds; one that took so long is worth a word."""
WatchedPaths = Callable[[], Sequence[tuple[str, str]]]
"""(path, what it is used for)."""


class Storage:
    """Free space of the file systems under ``wanted`` (asked once, in the thread)."""

    def __init__(self, places: KernelPaths, wanted: WatchedPaths) -> None:
        self._places = places
        self._wanted = wanted
        self._counters = Counters()
        self._space: dict[str, dict[str, Any]] = {}
        self._numbers: dict[str, str] = {}
        """Device number (``8:1``) by path."""
        self._asking: tuple[str, float] | None = None
        self._go = threading.Event()
        self._thread: threading.Thread | None = None

    def sample(self, seconds: float) -> dict[str, Any]:
        """``space`` by path, ``disk`` by device."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        space = {_printable_path(path): dict(told) for path, told in list(self._space.items())}
        asking = self._asking
        if asking is not None and time.monotonic() - asking[1] > SLOW_S:
            space.setdefault(_printable_path(asking[0]), {})["unanswered_s"] = round(time.monotonic() - asking[1], 1)
        self._go.set()
        found = {"space": space, "disk": self._disks(seconds)}
        return {name: told for name, told in found.items() if told}

    def _work(self) -> None:
        try:
            wanted = list(self._wanted())[:MAX_DEVICES]
            while True:
                self._go.wait()
                self._go.clear()
                for path, use in wanted:
                    self._ask(path, use)
        except Exception:  # noqa: BLE001 - a thread's edge: the rest of the sample goes on without
            return

    def _ask(self, path: str, use: str) -> None:
        began = time.monotonic()
        self._asking = (path, began)
        with suppress(OSError):
            there = _nearest(path)
            device, space = os.stat(there).st_dev, os.statvfs(there)  # noqa: PTH116
            number = f"{os.major(device)}:{os.minor(device)}"
            kind, source = self._mount(number, there)
            self._numbers[path] = _number_of(source) or number
            self._space[path] = {
                "use": use,
                "type": kind,
                "free": space.f_bavail * space.f_frsize,
                "size": space.f_blocks * space.f_frsize,
                "files_free": space.f_favail if space.f_files else None,
                "answered_s": round(time.monotonic() - began, 3),
            }
        self._asking = None

    def _mount(self, number: str, path: str) -> tuple[str, str]:
        """(type, source) of the mount ``path`` lies on."""
        best, found = -1, ("", "")
        for line in text_of(self._places.proc / "self" / "mountinfo").splitlines():
            left, _, right = line.partition(" - ")
            words, of = left.split(), right.split()
            if len(words) < 5 or len(of) < 2 or words[2] != number:
                continue
            point = words[4]
            inside = path == point or path.startswith(point.rstrip("/") + "/")
            if len(point) * inside > best:
                best, found = len(point) * inside, (of[0], of[1])
        return found

    def _disks(self, seconds: float) -> dict[str, Any]:
        uses: dict[str, list[str]] = {}
        for path, number in list(self._numbers.items()):
            uses.setdefault(number, []).append(_printable_path(path))
        found: dict[str, Any] = {}
        for line in text_of(self._places.proc / "diskstats").splitlines():
            words = line.split()
            if len(words) < 14:
                continue
            # reads, sectors, ms; writes, sectors, ms; ms busy
            counts = [int(words[at]) for at in (3, 5, 6, 7, 9, 10, 12)]
            grown = self._counters.since(words[2], counts)  # of every disk: whose they are is known a sample later
            if grown is None or seconds <= 0 or f"{words[0]}:{words[1]}" not in uses:
                continue
            reads, read, read_ms, writes, written, write_ms, busy_ms = grown
            found[words[2]] = {
                "paths": uses[f"{words[0]}:{words[1]}"],
                "read_bps": rate(read * SECTOR, seconds),
                "write_bps": rate(written * SECTOR, seconds),
                "busy": round(min(1.0, busy_ms / 1e3 / seconds), 4),
                "await_s": round((read_ms + write_ms) / 1e3 / max(1, reads + writes), 4),
            }
        return found


def _printable_path(path: str) -> str:
    """As its readers take it: on one line, and not endless."""
    return one_line(path, LONGEST)


def _nearest(path: str) -> str:
    """The nearest folder above that is there: a checkpoint's folder may come later."""
    here = Path(path)
    while not here.exists() and here != here.parent:
        here = here.parent
    return str(here)


def _number_of(source: str) -> str:
    """A file system of its own number (btrfs, overlay) may still lie on a device."""
    with suppress(OSError):
        if source.startswith("/dev/"):
            device = os.stat(source).st_rdev  # noqa: PTH116
            return f"{os.major(device)}:{os.minor(device)}" if device else ""
    return ""


def paths_of_run(folder: Path, command: Sequence[str], cwd: str) -> list[tuple[str, str]]:
    """The run folder, where the command was started, ``/dev/shm``, and the paths the command names."""
    found = {str(folder): "run", cwd or "/": "current", "/dev/shm": "shm"}  # noqa: S108 - only its free space is read
    with suppress(Exception):
        from unhang.check.storage.storage_paths import find_job_paths
        from unhang.host.machine import Machine
        from unhang.program.launch.planned_job import PlannedJob

        machine = Machine()
        machine.folder = cwd or "/"
        for place in find_job_paths(machine, PlannedJob(tuple(command))):
            found.setdefault(place.path, place.use)
    return list(found.items())
