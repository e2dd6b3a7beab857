"""The watcher's side of the control file: ranks are asked for dumps, which are read and dropped in the life of a job.

Requests outlive the process that made them. What a rank leaves as it falls is never dropped.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from unhang.watch import private_files
from unhang.wire.control import CONTROL_SIZE, Control, ControlWriter
from unhang.wire.record import read_records

POLL_S = 0.05
SILENT_S = 2.0
"""A rank whose record is so old answers no request."""


def open_control(records: Path) -> ControlWriter | None:
    """Continue writing the control file of ``records`` where it stands; made when missing. None when it cannot be."""
    reader = Control.open_read(records)
    try:
        if reader is None:
            return Control.create(records)
        number = os.open(records / "control", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            writer = ControlWriter(mmap.mmap(number, CONTROL_SIZE), records)
        finally:
            os.close(number)
    except OSError:
        return None
    writer.now = reader.read()
    return writer


def ask_dumps(records: Path, *, with_stacks: bool = False) -> int:
    """Ask every rank for its dump, ``with_stacks`` one that names lines; the number of the request, 0 where there is
    nowhere to ask."""
    control = open_control(records)
    if control is None:
        return 0
    number = control.ask_stacks() if with_stacks else control.ask_dump()
    control.close()
    return number


def take_dumps(records: Path, dumps: Path, *, limit_s: float, with_stacks: bool = False) -> dict[Path, int]:
    """Ask every rank for its dump and wait for those that answer; what lies in ``dumps`` then, as
    :func:`dump_times`."""
    number = ask_dumps(records, with_stacks=with_stacks)
    deadline = time.monotonic() + limit_s
    while number and time.monotonic() < deadline:
        views = [v for v in read_records(records).values() if not (v.closed or v.ended) and v.age_s() < SILENT_S]
        if all((view.stacks_served if with_stacks else view.dump_served) >= number for view in views):
            break
        time.sleep(POLL_S)
    return dump_times(dumps)


def dump_times(dumps: Path) -> dict[Path, int]:
    """The dumps that lie there, and when each was written (nanoseconds)."""
    found: dict[Path, int] = {}
    for path in dumps.glob("rank_*"):
        with suppress(OSError):
            found[path] = path.stat().st_mtime_ns
    return found


def remove_unchanged(read: Mapping[Path, int]) -> None:
    """Remove those that were read; one that was written since is the last word of a rank, and stays."""
    for path, written_ns in read.items():
        if (path.parent.parent / "crash" / f"{path.name}.except").exists():
            continue  # it fell while the others answered
        with suppress(OSError):
            if path.stat().st_mtime_ns == written_ns:
                path.unlink()


def keep_as_earlier_dumps(folder: Path) -> None:
    """The first dumps of a job that moves are its earlier ones: two of them show who comes last."""
    for path in sorted((folder / "dumps").glob("rank_*")):
        private_files.make_folder(folder / "dumps" / "earlier")
        with suppress(OSError):
            path.replace(folder / "dumps" / "earlier" / path.name)
