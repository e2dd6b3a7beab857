"""Undo what chats and terminals do to pasted lines: hard wrapping at a fixed width, HTML entities.

Only small logs are looked at. Lines are joined where that makes more of them readable than before, so that tables of
equal width (``nvidia-smi``) stay as they are.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from unhang.evidence.items import LastLine, LogEvent, LogReading, ProcessExit, Progress, PythonTraceback
from unhang.evidence.logs.blocks import decoded
from unhang.knowledge.messages import match_message

PASTE_BYTES = 1 << 18
NARROWEST, WIDEST = 40, 132
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|#39|#x27|nbsp);")
# So many characters of all, or so many lines, must stand in lines of the full width.
_SHARE, _LINES = 0.3, 3


_Item = TypeVar("_Item", LogEvent, PythonTraceback, ProcessExit, Progress, LastLine)


@dataclass(frozen=True, slots=True)
class Mended:
    """The log with its lines whole again; ``first_lines[i]`` is where line ``i`` of ``data`` began in the paste."""

    data: bytes
    first_lines: tuple[int, ...]
    lines: int
    """How many lines the paste had."""


def mend_paste(data: bytes) -> Mended | None:
    """The log as it was before it was pasted; None when nothing has to be undone."""
    if len(data) > PASTE_BYTES:
        return None
    text = decoded(data).replace("\r\n", "\n")
    plain = html.unescape(text) if _ENTITY.search(text) else text
    if "\r" in plain:
        return None
    lines = plain.split("\n")
    joined = _joined(lines)
    if joined is None:
        if plain == text:
            return None
        joined = [(number, line) for number, line in enumerate(lines, start=1)]
    return Mended(
        "\n".join(line for _, line in joined).encode("utf-8"),
        tuple(number for number, _ in joined),
        len(lines) - (not lines[-1]),
    )


def _joined(lines: list[str]) -> list[tuple[int, str]] | None:
    """Lines of the full width with what follows them; None when joining tells nothing more."""
    width = max((len(line) for line in lines), default=0)
    if not NARROWEST <= width <= WIDEST:
        return None
    full = Counter(len(line) for line in lines)[width]
    characters = sum(len(line) for line in lines)
    if full < _LINES and full * width < characters * _SHARE:
        return None
    joined: list[tuple[int, str]] = []
    going_on = False
    for number, line in enumerate(lines, start=1):
        if going_on:
            joined[-1] = (joined[-1][0], joined[-1][1] + line)
        else:
            joined.append((number, line))
        going_on = len(line) == width
    return joined if _told(line for _, line in joined) > _told(lines) else None


def _told(lines: Iterable[str]) -> int:
    """How much the messages in these lines tell: one for each, and one for each of its fields."""
    return sum(1 + len(match.values) for line in lines for match in match_message(line[:20_000]))


def renumbered(reading: LogReading, paste: Mended) -> LogReading:
    """``reading`` of the mended log with the line numbers of the paste: of a joined line, where it began."""

    def placed(line: int) -> int:
        return paste.first_lines[line - 1] if 0 < line <= len(paste.first_lines) else line

    def moved(item: _Item) -> _Item:
        line = item.source.line
        return item if line is None else replace(item, source=replace(item.source, line=placed(line)))

    return replace(
        reading,
        events=tuple(map(moved, reading.events)),
        tracebacks=tuple(map(moved, reading.tracebacks)),
        exits=tuple(map(moved, reading.exits)),
        progress=tuple(replace(moved(run), last_line=placed(run.last_line)) for run in reading.progress),
        last_lines=tuple(map(moved, reading.last_lines)),
        lines=paste.lines,
    )
