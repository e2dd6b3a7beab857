"""Runs that the history has not taken yet: private files beside it, few of them, sent with the next run."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

import msgspec

from unhang.history.place import HistoryPlace
from unhang.history.run import PastRun

MAX_FILES = 200
MAX_BYTES = 32 << 20
"""Of all of them together."""
OLDER_S = 0.3
"""After so long no further older one is sent: the end of a job waits for us."""


class UnsentRun(msgspec.Struct, frozen=True):
    """A run and its ``id``, under which a history keeps it once."""

    id: str
    run: PastRun


def keep_unsent(place: HistoryPlace, run: PastRun) -> tuple[UnsentRun, Path | None]:
    """``run`` with its new id, and where it lies now: None where there is no room, or no folder."""
    unsent = UnsentRun(uuid.uuid4().hex, run)
    content = msgspec.json.encode(unsent)
    path = place.unsent / f"{time.time_ns():020}-{unsent.id}.json"
    try:
        place.unsent.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = waiting(place)
        if len(there) >= MAX_FILES or sum(one.stat().st_size for one in there) + len(content) > MAX_BYTES:
            return unsent, None
        part = path.with_suffix(".part")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
            file.write(content)
        part.replace(path)
    except OSError:
        return unsent, None
    return unsent, path


def waiting(place: HistoryPlace) -> list[Path]:
    """The files of runs that were not sent yet, oldest first."""
    try:
        return sorted(path for path in place.unsent.iterdir() if path.suffix == ".json")
    except OSError:
        return []


def read_unsent(path: Path) -> UnsentRun | None:
    """None where it is gone (another process sent it), or was torn: then it is removed."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=UnsentRun)
    except OSError:
        return None
    except (msgspec.MsgspecError, ValueError):
        path.unlink(missing_ok=True)
        return None


def forget_unsent(place: HistoryPlace) -> int:
    """Remove them; returns how many there were."""
    there = waiting(place)
    for path in there:
        path.unlink(missing_ok=True)
    return len(there)
