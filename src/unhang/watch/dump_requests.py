"""The watcher's side of the control file: ranks are asked for dumps, which are read and dropped in the life of a job.

Requests outlive the process that made them. What a rank leaves as it falls is never dropped.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from unhang.watch import private_files
from unhang.wire.control import CONTROL_SIZE, Control, ControlWriter
from unhang.wire.record import read_records
from unhang.wire.record_views import RecordView

POLL_S = 0.05
SILENT_S = 1.5
"""A record so old says nothing of now, and its rank answers no request."""

Key = TypeVar("Key")


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


def wait_for_dumps(
    number: int, views_of: Callable[[], Mapping[Key, RecordView]], *, limit_s: float, with_stacks: bool = False
) -> set[Key]:
    """Wait until all that ``views_of`` names have answered request ``number``, or say nothing now; who has."""
    deadline = time.monotonic() + limit_s
    answered: set[Key] = set()
    while number and time.monotonic() < deadline:
        views = views_of()
        answered = {
            k for k, view in views.items() if (view.stacks_served if with_stacks else view.dump_served) >= number
        }
        if all(key in answered or is_silent(view) for key, view in views.items()):
            break
        time.sleep(POLL_S)
    return answered


def is_silent(view: RecordView) -> bool:
    """Its record says nothing of now."""
    return view.age_s() > SILENT_S


def take_dumps(records: Path, dumps: Path, *, limit_s: float, with_stacks: bool = False) -> dict[Path, int]:
    """Ask every rank for its dump and wait for those that answer; what lies in ``dumps`` then, as
    :func:`dump_times`."""

    def living() -> dict[Path, RecordView]:
        return {path: view for path, view in read_records(records).items() if not (view.closed or view.ended)}

    number = ask_dumps(records, with_stacks=with_stacks)
    wait_for_dumps(number, living, limit_s=limit_s, with_stacks=with_stacks)
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
