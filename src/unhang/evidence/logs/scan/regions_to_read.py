"""Which parts of a block of a large log are read line by line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unhang.evidence.logs.scan.literal_filters import Tag
from unhang.knowledge.messages import MessageRow

_AFTER_HIT, _LONGEST_TRACEBACK = 4, 160
"""So many lines from a recognised line on, or at most from the head of a traceback on, are read with it."""
AFTER_TRACEBACK = 4
"""So many lines behind the end of a traceback: its message may go on, or another be chained to it."""


@dataclass(slots=True)
class Region:
    """Bytes ``start`` to ``stop``, and on to ``until`` while a traceback has not ended, with what follows it."""

    start: int
    stop: int
    until: int


def regions_of(data: bytes, places: Sequence[tuple[int, MessageRow | None]], tail_bytes: int) -> list[Region]:
    """Around the ``places`` of literals (None = the head of a traceback), and the last ``tail_bytes``; in order."""
    regions: list[Region] = []
    for at, row in places:
        if regions and at < regions[-1].stop and row is not None:
            continue
        start = data.rfind(b"\n", 0, at) + 1
        stop = _lines_on(data, at, _lines_with(row))
        until = stop if row is not None else _lines_on(data, stop, _LONGEST_TRACEBACK)
        _add(regions, Region(start, stop, until))
    tail = data.find(b"\n", max(0, len(data) - tail_bytes)) + 1
    if tail_bytes and 0 < tail < len(data):
        _add(regions, Region(tail, len(data), len(data)))
    return regions


def first_in_each_line(data: bytes, places: Sequence[tuple[int, Tag]]) -> list[tuple[int, Tag]]:
    """``places`` of literals without those that stand in one line with an earlier one of the same tag."""
    ends: dict[Tag, int] = {}
    kept: list[tuple[int, Tag]] = []
    for at, tag in places:
        if at < ends.get(tag, 0):
            continue
        end = data.find(b"\n", at)
        ends[tag] = end if end >= 0 else len(data)
        kept.append((at, tag))
    return kept


def add_lines(regions: list[Region], lines: Sequence[tuple[int, int]]) -> list[Region]:
    """``regions`` and some more ``lines`` (first byte, byte behind the last), in order."""
    joined: list[Region] = []
    for region in sorted((*regions, *(Region(start, stop, stop) for start, stop in lines)), key=lambda one: one.start):
        _add(joined, region)
    return joined


def _add(regions: list[Region], new: Region) -> None:
    if not regions or new.start > regions[-1].stop:
        regions.append(new)
        return
    last = regions[-1]
    last.stop, last.until = max(last.stop, new.stop), max(last.until, new.until)


def _lines_with(row: MessageRow | None) -> int:
    """How many lines from a literal on belong to it: NCCL and plain information say all in one."""
    return 1 if row is None or row.benign or row.owner == "NCCL" else _AFTER_HIT


def count_newlines(data: bytes, start: int, stop: int) -> int:
    """How many line ends stand between two bytes; quicker than ``bytes.count`` where there are many."""
    if stop - start < 4096:
        return data.count(b"\n", start, stop)
    import numpy as np

    return int(np.count_nonzero(np.frombuffer(data, np.uint8, stop - start, start) == ord("\n")))


def _lines_on(data: bytes, at: int, lines: int) -> int:
    """Where the ``lines``-th line from ``at`` on ends."""
    for _ in range(lines):
        at = data.find(b"\n", at) + 1
        if at <= 0:
            return len(data)
    return at
