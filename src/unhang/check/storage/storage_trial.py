"""One small step on one folder, in a process of its own: ``storage_trial.py STEP FOLDER [BYTES]`` prints a JSON object.

Nothing here touches a file of somebody else: what is written is private and loses its name before the first byte, so
that it is gone whatever ends this process; only ``files`` makes names, in a folder of its own, which ``clean`` removes.
Run with ``python -I -S``; it imports the standard library only.
"""

# pathlib takes longer to import than most steps take:
# ruff: noqa: PTH102, PTH108, PTH110, PTH112, PTH113, PTH116, PTH118, PTH120, PTH202

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

PREFIX = ".unhang-check-"
APPENDS, APPEND_S = 40, 0.6
WRITE_S, CHUNK = 1.2, 1 << 20
FILES, FILES_S = 40, 0.5
READS, READS_S, READ_BYTES, MAX_ENTRIES = 64, 0.8, 64 << 10, 2000


def inspect(path: str) -> dict[str, Any]:
    """What ``path`` lies on; ``folder`` is the nearest that is there."""
    there = os.path.exists(path)
    folder = os.path.realpath(path)
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    space = os.statvfs(folder)
    return {
        "exists": there,
        "folder": folder,
        "writable": os.access(folder, os.W_OK | os.X_OK),
        "device": str(os.stat(folder).st_dev),
        "size": space.f_blocks * space.f_frsize,
        "free": space.f_bavail * space.f_frsize,
        "files_free": space.f_favail if space.f_files else None,
    }


def appends(folder: str) -> dict[str, Any]:
    """What a metrics log does: a line at the end, and to the disk with it."""
    line = b"x" * 255 + b"\n"
    seconds: list[float] = []
    with _nameless(folder) as file:
        for _ in _within(APPENDS, APPEND_S):
            started = time.perf_counter()
            os.write(file.fileno(), line)
            os.fsync(file.fileno())
            seconds.append(time.perf_counter() - started)
    return {"seconds": seconds, "bytes": len(line) * len(seconds)}


def write(folder: str, most: str) -> dict[str, Any]:
    """What a checkpoint does: one large file, to the disk."""
    chunk, written = os.urandom(CHUNK), 0
    with _nameless(folder) as file:
        started = time.perf_counter()
        for number in _within(max(1, int(most) // CHUNK), WRITE_S):
            written += os.write(file.fileno(), chunk)
            if number % 8 == 7:
                os.fdatasync(file.fileno())
        os.fdatasync(file.fileno())
        return {"seconds": [time.perf_counter() - started], "bytes": written}


def files(folder: str) -> dict[str, Any]:
    """Metadata: make a small file, look at it, remove it."""
    own = _own_folder(folder)
    os.mkdir(own, 0o700)
    seconds: list[float] = []
    try:
        for number in _within(FILES, FILES_S):
            name = os.path.join(own, str(number))
            started = time.perf_counter()
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            os.stat(name)
            os.unlink(name)
            seconds.append(time.perf_counter() - started)
    finally:
        shutil.rmtree(own, ignore_errors=True)
    return {"seconds": seconds, "bytes": 0}


def clean(folder: str) -> dict[str, Any]:
    """Remove what a ``files`` that was killed left behind."""
    shutil.rmtree(_own_folder(folder), ignore_errors=True)
    return {}


def reads(path: str) -> dict[str, Any]:
    """Pieces of the data at random places, not from memory where the system lets go of them."""
    names = list(_some_files(path))
    chosen = random.Random(0)  # noqa: S311 - places to read, no secret
    seconds: list[float] = []
    read = 0
    for _ in _within(READS if names else 0, READS_S):
        name, size = chosen.choice(names)
        at = chosen.randrange(max(1, size - READ_BYTES))
        started = time.perf_counter()
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file, at, READ_BYTES, os.POSIX_FADV_DONTNEED)
            read += len(os.pread(file, READ_BYTES, at))
        finally:
            os.close(file)
        seconds.append(time.perf_counter() - started)
    return {"seconds": seconds, "bytes": read}


def _some_files(path: str) -> Iterator[tuple[str, int]]:
    """Regular files below ``path`` that hold something, the nearest first; it looks at a bounded number of names."""
    if os.path.isfile(path):
        yield path, os.path.getsize(path)
        return
    waiting, left = [path], MAX_ENTRIES
    while waiting and left > 0:
        entries = _entries(waiting.pop(0), left)
        left -= len(entries)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif entry.is_file(follow_symlinks=False) and os.access(entry.path, os.R_OK):
                size = entry.stat(follow_symlinks=False).st_size
                if size:
                    yield entry.path, size


def _entries(folder: str, most: int) -> list[os.DirEntry[str]]:
    """The first of a folder; none where it may not be listed."""
    try:
        with os.scandir(folder) as entries:
            return list(itertools.islice(entries, most))
    except OSError:
        return []


def _nameless(folder: str) -> Any:
    """A private file that has no name any more."""
    return tempfile.TemporaryFile(prefix=PREFIX, dir=folder, buffering=0)


def _own_folder(folder: str) -> str:
    return os.path.join(folder, f"{PREFIX}{os.getppid()}")


def _within(most: int, seconds: float) -> Iterator[int]:
    """0, 1, 2 … until ``most`` or until ``seconds`` are over; once at least."""
    ends = time.perf_counter() + seconds
    for number in range(most):
        yield number
        if time.perf_counter() > ends:
            return


STEPS = {one.__name__: one for one in (inspect, appends, write, files, clean, reads)}


def main(words: list[str]) -> None:
    """Run one step; what the system refuses is an answer."""
    try:
        answer = STEPS[words[0]](*words[1:])
    except OSError as error:
        answer = {"trouble": error.strerror or type(error).__name__}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
