"""One exception, read twice: in a log that all ranks share, and in the file of the rank that raised it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from unhang.evidence.items import Frame, PythonTraceback

_Key = tuple[str, str, Frame | None]


def unique_tracebacks(tracebacks: Iterable[PythonTraceback]) -> tuple[PythonTraceback, ...]:
    """Each exception once: where the shared log names no rank and a rank's own file has the same, the log's place and
    the rank. A log orders what several ranks raised; which of them it was, only their own files tell."""
    every = tuple(tracebacks)
    ranks: dict[_Key, dict[int, int]] = defaultdict(dict)
    for number, one in enumerate(every):
        if one.rank is not None:
            ranks[_key(one)].setdefault(one.rank, number)
    placed = dict(enumerate(every))
    for number, one in placed.copy().items():
        owners = ranks[_key(one)] if one.rank is None else {}
        if owners and all(every[copy].source.path != one.source.path for copy in owners.values()):
            rank = min(owners)
            del placed[owners.pop(rank)]
            placed[number] = replace(one, rank=rank)
    return tuple(placed.values())


def _key(traceback: PythonTraceback) -> _Key:
    first_line = traceback.message.partition("\n")[0][:200]
    return traceback.exception, first_line, traceback.frames[0] if traceback.frames else None
