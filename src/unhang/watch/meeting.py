"""The records folder of a run: private, on a local file system, and where the tasks of one start meet.

Whoever comes first makes the run folder and the records folder, the others find them. Locks are the kernel's: they
end with the process that holds them, however it ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from unhang.records.control import Control
from unhang.watch import private_files
from unhang.watch.run_folder import RunFolder
from unhang.watch.siblings import Siblings
from unhang.watch.tasks import Task

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the kernel's own memory file system; the folder made in it is private
LEFT_BEHIND_S = 60.0
"""A folder nobody holds for so long is what killed processes left behind."""
GENERATIONS = 1000
ROOM = 1 << 20
"""The record of a rank takes 16 KiB."""


@dataclass(slots=True)
class Meeting:
    """One run on this machine, as one of its tasks sees it. ``number``: of this task."""

    folder: RunFolder
    records: Path
    number: int = 0
    count: int = 1


class Lock:
    """A lock on a file that goes with this process. Children do not inherit it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.number: int | None = None

    def take(self, *, shared: bool = False) -> bool:
        """Take it, or keep it; False where another process has it, or where it cannot be had."""
        if self.number is not None:
            return True
        try:
            number = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            return False
        try:
            fcntl.lockf(number, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError:
            os.close(number)
            return False
        self.number = number
        return True

    def give(self) -> None:
        """Give it back."""
        if self.number is not None:
            os.close(self.number)
            self.number = None


def alive(records: Path) -> Lock:
    """Held (shared) by every front and watcher of a run: its records are not left behind."""
    return Lock(records / "alive")


def watching(records: Path) -> Lock:
    """Held by the watcher."""
    return Lock(records / "watching")


def meet(make_folder: Callable[[Siblings | None], RunFolder], us: Siblings | None) -> Meeting:
    """Make the run and records folders, or find those another task of the same start has made.

    Raises:
        UsageError: the run folder cannot be used.
        OSError: there is no place for the records.
    """
    place = _place()
    sweep(place)
    stem = hashlib.sha256(us.key.encode()).hexdigest()[:16] if us is not None else ""
    for generation in range(GENERATIONS if us is not None else 0):
        assert us is not None
        found = _join(place / f"unhang-{os.getuid()}-{stem}-{generation}", make_folder, us)
        if found is not None:
            return found
    folder = make_folder(us)
    records = Path(tempfile.mkdtemp(prefix=f"unhang-{os.getuid()}-", dir=place))
    _furnish(records)
    Task(0, os.getpid()).write(records)
    return Meeting(replace(folder, records=records), records)


def _place() -> Path:
    """Where records may lie: shared memory, or the folder for temporary files where there is no room in it."""
    with suppress(OSError), tempfile.TemporaryFile(dir=SHARED_MEMORY, prefix=f"unhang-{os.getuid()}-room-") as file:
        os.posix_fallocate(file.fileno(), 0, ROOM)
        return SHARED_MEMORY
    return Path(tempfile.gettempdir())


def _join(records: Path, make_folder: Callable[[Siblings | None], RunFolder], us: Siblings) -> Meeting | None:
    """One of the tasks that use ``records``; None when this task was here before, or the folder is not ours."""
    private_files.make_folder(records)
    told = records.lstat()
    if not stat.S_ISDIR(told.st_mode) or told.st_uid != os.getuid() or stat.S_IMODE(told.st_mode) != 0o700:
        return None
    number = os.open(records / "meeting", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        if not (records / "meeting").exists():
            return None  # the last of an earlier run has just cleaned up
        noted = records / "run-folder.json"
        if not noted.exists():
            folder = make_folder(us)
            _furnish(records)
            private_files.replace(noted, json.dumps(os.fspath(folder.path)).encode())
        mine = records / "tasks" / f"{us.number}.json"
        if mine.exists():
            return None
        Task(us.number, os.getpid()).write(records)
        folder = RunFolder(Path(json.loads(noted.read_bytes())), records)
        return Meeting(folder, records, us.number, us.count)
    finally:
        os.close(number)


def _furnish(records: Path) -> None:
    for name in ("births", "tasks"):
        private_files.make_folder(records / name)
    Control.create(records).close()


def sweep(place: Path) -> None:
    """Remove the records of runs of which nobody is left: their front and their watcher were both killed."""
    with suppress(OSError):
        for path in place.glob(f"unhang-{os.getuid()}-*"):
            with suppress(OSError):
                told = path.lstat()
                ours = stat.S_ISDIR(told.st_mode) and told.st_uid == os.getuid()
                if ours and time.time() - told.st_mtime > LEFT_BEHIND_S:
                    _remove_unless_held(path)


def _remove_unless_held(path: Path) -> None:
    lock = alive(path)
    if lock.take():
        shutil.rmtree(path, ignore_errors=True)
        lock.give()
