"""The records folder of a run: private, on a local file system, and where the tasks of one start meet.

Whoever comes first makes the run folder and the records folder, the others find them. Locks are the kernel's: they
end with the process that holds them, however it ends. The run folder goes where the user named, or to a place of our
own choice that can be written to.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from unhang.errors import UsageError
from unhang.report.printable import one_line
from unhang.sentences import Text, say
from unhang.watch import private_files
from unhang.watch.job.sibling_tasks import SiblingTasks
from unhang.watch.launch.tasks import Task
from unhang.watch.nodes.transport.node_discovery import JobNodes, node_name
from unhang.watch.run_folder import RunFolder, free_place
from unhang.wire.control import Control

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the kernel's own memory file system; the folder made in it is private
ABANDONED_AFTER_S = 60.0
"""A folder nobody holds for so long is what killed processes left behind."""
START_LOCK = "turn"
START_LOCK_LIMIT_S = 10.0
MIN_FREE_BYTES = 1 << 20
"""Of the file system: the record of a rank takes 32 KiB (``record.SIZE``)."""


@dataclass(slots=True)
class JoinedRun:
    """The run this task joined: its folders, the task's ``number`` and the ``count`` of tasks."""

    folder: RunFolder
    records: Path
    number: int = 0
    count: int = 1


class Lock:
    """A lock on a file that goes with this process. Children do not inherit it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = False
        self.number: int | None = None

    def acquire(self, *, shared: bool = False) -> bool:
        """Take it, or keep it; False where another process has it, or where it cannot be had."""
        if self.number is not None:
            return True
        try:
            # One that was there is gone with what its run said: made anew, that would be said again.
            made = 0 if self._seen else os.O_CREAT
            number = os.open(self._path, os.O_RDWR | made | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            return False
        self._seen = True
        try:
            fcntl.lockf(number, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError:
            os.close(number)
            return False
        self.number = number
        return True

    def release(self) -> None:
        """Give it back."""
        if self.number is not None:
            os.close(self.number)
            self.number = None


def alive_lock(records: Path) -> Lock:
    """Held (shared) by every command runner and watcher of a run: its records are not left behind."""
    return Lock(records / "alive")


def watcher_lock(records: Path) -> Lock:
    """The lock a watcher holds, so that a run has one on each node."""
    return Lock(records / "watching")


def join_or_create_run(make_folder: Callable[[SiblingTasks | None], RunFolder], us: SiblingTasks | None) -> JoinedRun:
    """Make the run and records folders, or find those another task of the same start has made.

    Raises:
        UsageError: the run folder cannot be used.
        OSError: there is no place for the records.
    """
    place = _records_parent()
    remove_abandoned_records(place)
    if us is not None:
        return _join_shared_run(place, make_folder, us)
    folder = make_folder(us)
    records = Path(tempfile.mkdtemp(prefix=f"unhang-{os.getuid()}-", dir=place))
    _create_contents(records)
    Task(0, os.getpid()).write(records)
    return JoinedRun(replace(folder, records=records), records)


def _records_parent() -> Path:
    """Where records may lie: shared memory, or the folder for temporary files where there is no room in it."""
    with suppress(OSError), tempfile.TemporaryFile(dir=SHARED_MEMORY, prefix=f"unhang-{os.getuid()}-room-") as file:
        os.posix_fallocate(file.fileno(), 0, MIN_FREE_BYTES)
        return SHARED_MEMORY
    return Path(tempfile.gettempdir())


def _join_shared_run(
    place: Path, make_folder: Callable[[SiblingTasks | None], RunFolder], us: SiblingTasks
) -> JoinedRun:
    """The first run of this start in which this task has no part yet; a new one where there is none.

    One folder a start holds one records folder a run: a task may be in its second run while another is in its first.
    """
    stem = hashlib.sha256(us.key.encode()).hexdigest()[:16]
    start = private_files.make_folder(place / f"unhang-{os.getuid()}-{stem}")
    told = start.lstat()
    if not stat.S_ISDIR(told.st_mode) or told.st_uid != os.getuid() or stat.S_IMODE(told.st_mode) != 0o700:
        raise PermissionError(errno.EPERM, f"{start} is not ours")
    with _start_lock(start):
        runs = _runs(start)
        records = next((run for run in runs if not (run / "tasks" / f"{us.number}.json").exists()), None)
        if records is None:
            folder = make_folder(us)
            # No name comes twice: whoever is still leaving an earlier run must not find this one in its place.
            records = private_files.make_folder(start / f"{_number(runs[-1]) + 1 if runs else 0}.{os.getpid()}")
            _create_contents(records)
            private_files.write_atomically(records / "run-folder.json", json.dumps(os.fspath(folder.path)).encode())
        Task(us.number, os.getpid()).write(records)
        folder = RunFolder(Path(json.loads((records / "run-folder.json").read_bytes())), records)
        return JoinedRun(folder, records, us.number, us.count)


def _runs(start: Path) -> list[Path]:
    """Records folders of the runs of one start, in order; one that nobody finished making does not count."""
    return sorted((path.parent for path in start.glob("[0-9]*.[0-9]*/run-folder.json")), key=_number)


def _number(records: Path) -> int:
    return int(records.name.partition(".")[0])


def remove_records(records: Path) -> None:
    """Remove the records of a run that is over, and the folder of its start when no other run is in it."""
    shutil.rmtree(records, ignore_errors=True)
    start = records.parent
    if not (start / START_LOCK).exists():
        return
    with suppress(OSError), _start_lock(start):
        if not any(path.is_dir() for path in start.iterdir()):
            shutil.rmtree(start, ignore_errors=True)


@contextmanager
def _start_lock(start: Path) -> Iterator[None]:
    """One task of a start at a time. Raises OSError when another keeps the others waiting (it was stopped)."""
    deadline = time.monotonic() + START_LOCK_LIMIT_S
    while True:
        private_files.make_folder(start)
        number = os.open(start / START_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if (start / START_LOCK).exists():  # otherwise the last of an earlier run has just cleaned up
                yield
                return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
        finally:
            os.close(number)
        time.sleep(0.02)


def _create_contents(records: Path) -> None:
    for name in ("births", "tasks"):
        private_files.make_folder(records / name)
    Control.create(records).close()


def remove_abandoned_records(place: Path) -> None:
    """Remove records folders of runs without any live process."""
    with suppress(OSError):
        for path in place.glob(f"unhang-{os.getuid()}-*"):
            for records in path.glob("[0-9]*") if (path / START_LOCK).exists() else (path,):
                with suppress(OSError):
                    _remove_unless_held(records)
            with suppress(OSError):
                if (
                    (path / START_LOCK).exists()
                    and _is_abandoned(path)
                    and not any(run.is_dir() for run in path.iterdir())
                ):
                    shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(path: Path) -> bool:
    told = path.lstat()
    ours = stat.S_ISDIR(told.st_mode) and told.st_uid == os.getuid()
    return ours and time.time() - told.st_mtime > ABANDONED_AFTER_S


def _remove_unless_held(records: Path) -> None:
    lock = alive_lock(records)
    if _is_abandoned(records) and lock.acquire():
        shutil.rmtree(records, ignore_errors=True)
        lock.release()


def create_run_folder(named: Path | None, us: SiblingTasks | None, nodes: JobNodes | None = None) -> RunFolder:
    """A new run folder: ``named``, or ``unhang-runs/TIME``; below it one a machine where a start spans several.

    Raises:
        UsageError: ``named`` holds something already.
        OSError: nothing can be written anywhere.
    """
    below = node_name(os.environ) if nodes is not None or (us is not None and us.several_machines) else ""
    if named is not None:
        return _create_named(named / below)
    name = us.name if us is not None and below and us.name else time.strftime("%Y%m%d-%H%M%S")
    try:
        return RunFolder.create(free_place(name, below))
    except UsageError:
        return _create_fallback(say("the current folder is not writable"))


def _create_named(path: Path) -> RunFolder:
    try:
        return RunFolder.create(path)
    except UsageError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        return _create_fallback(say("{path} is not writable", path=str(path)))


def _create_fallback(because: Text) -> RunFolder:
    """A disk that takes nothing costs the place of the evidence, not the job."""
    found = RunFolder.create(Path(tempfile.mkdtemp(prefix="unhang-run-")))
    text = say("{because}; the run folder is {folder}", because=because, folder=str(found.path))
    with suppress(OSError):
        print(f"unhang: {one_line(str(text))}", file=sys.stderr, flush=True)
    return found
