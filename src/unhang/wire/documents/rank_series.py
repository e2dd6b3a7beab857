"""``series/ranks.jsonl``: how every rank of a run went, a line of JSON for some seconds of a rank.

The first line is ``{"schema": …, "width_s": …}``; a place is written once, ``{"site": N, "place": [FILE, LINE,
FUNCTION]}``, and named by its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

SCHEMA = "unhang.series/1"
SERIES_PATH = Path("series") / "ranks.jsonl"
ActivityCount = tuple[int, str, bool, int]


class Line(msgspec.Struct):
    """A line: the head, the number of a place, or a row. ``looks``: samples in the row, ``waits``: those in which the
    rank stood in communication; ``doing``: (site, phase, whether it waited, samples)."""

    schema: str = ""
    width_s: float = 1.0
    site: int = -1
    place: tuple[str, int, str] = ("", 0, "")
    rank: int = -1
    attempt: int = 0
    at_s: float = 0.0
    step: int = 0
    steps: float = 0.0
    took_s: float = 0.0
    longest_s: float = 0.0
    for_s: float = 0.0
    calls: int = 0
    calls_a_step: int = 0
    looks: int = 0
    waits: int = 0
    doing: tuple[ActivityCount, ...] = ()


def read_lines(lines: Iterable[bytes]) -> Iterator[Line | None]:
    """The lines; None where one is torn."""
    decoder = msgspec.json.Decoder(Line)
    for line in lines:
        try:
            yield decoder.decode(line)
        except (ValueError, RecursionError):  # noqa: PERF203 - a torn line costs only itself
            yield None
