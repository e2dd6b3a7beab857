"""Why NCCL could not use its files in /dev/shm: there was no room, no right, no such file, or not even a name."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from unhang.evidence.items import LogEvent

NO_SUCH_FILE, NOT_PERMITTED = 2, 13
_OPENING = ("n.shmseg", "n.shmopen")


class SegmentFailure(str, enum.Enum):
    """What stood against it."""

    NO_ROOM = "no-room"
    NO_RIGHT = "no-right"
    NOT_THERE = "not-there"
    NO_NAME = "no-name"
    """The name that a peer sent is none: NCCL read another kind of handle as a path."""


def segment_failure(events: Iterable[LogEvent]) -> SegmentFailure:
    """Of lines about shared memory; a full /dev/shm where no line tells another reason."""
    opening = [event for event in events if event.kind in _OPENING]
    if any(_says(event, NOT_PERMITTED, "Permission denied") for event in opening):
        return SegmentFailure.NO_RIGHT
    absent = [event for event in opening if _says(event, NO_SUCH_FILE, "No such file")]
    if any(_is_no_name(event) for event in absent):
        return SegmentFailure.NO_NAME
    return SegmentFailure.NOT_THERE if absent else SegmentFailure.NO_ROOM


def _says(event: LogEvent, errno: int, words: str) -> bool:
    return event.values.get("errno") == errno or words in str(event.values.get("error", ""))


def _is_no_name(event: LogEvent) -> bool:
    path = str(event.values.get("path", ""))
    return event.kind == "n.shmseg" and (event.values.get("bytes") == 0 or not path.isascii() or path.endswith("nccl-"))
