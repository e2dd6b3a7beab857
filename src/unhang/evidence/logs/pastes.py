"""Undo what chats, mails, editors and terminals do to pasted lines, so that they read as the log did.

Only small logs are looked at: quote marks, bullets, code fences, line numbers of editors and ``grep -n``, indentation,
HTML entities, invisible characters and broken lines. The numbers of lines stay those of the paste.
"""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from unhang.evidence.items import LastLine, LogEvent, LogReading, ProcessExit, Progress, PythonTraceback
from unhang.evidence.logs.blocks import decoded
from unhang.evidence.logs.wrapping import Numbered, unwrapped

PASTE_BYTES = 1 << 18
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|#39|#x27|nbsp|#34|#160);")
_INVISIBLE = {
    **dict.fromkeys((0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2060, 0xFEFF, 0xAD)),
    **dict.fromkeys((0xA0, 0x2002, 0x2003, 0x2007, 0x2009, 0x202F), " "),
}
_CURLY = {0x201C: '"', 0x201D: '"', 0x2018: "'", 0x2019: "'"}
_QUOTE = re.compile(r" {0,3}(?:> ?)+")
_FENCE = re.compile(r"\s*(?:```|~~~)[\w+-]*\s*")
_BULLET = re.compile(r"\s{0,3}(?:[-*+•] |\d{1,4}[.)] )")
_GUTTER = re.compile(r"\s{0,8}L?(?P<number>\d{1,7})(?P<mark>:(?! )|: |\s?[|│] ?|\t| {1,3})")
_MARKUP = frozenset(">-*+•`~&|│\t" + "".join(map(str, range(10))))
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
    if not data or len(data) > PASTE_BYTES:
        return None
    raw = data.split(b"\n")
    if not raw[-1]:
        raw.pop()
    original = [(number, decoded(line.removesuffix(b"\r"))) for number, line in enumerate(raw, start=1)]
    if any("\r" in line for _, line in original):
        return None
    lines = _without_marks([(number, _plain(line)) for number, line in original])
    lines = unwrapped(lines) or lines
    if lines == original:
        return None
    content = "".join(f"{line}\n" for _, line in lines)
    return Mended(content.encode("utf-8", "replace"), tuple(number for number, _ in lines), len(raw))


def _plain(line: str) -> str:
    """Entities, invisible characters and typographic quotes as the program had written them."""
    if "&" in line and _ENTITY.search(line):
        line = html.unescape(line)
    if not line.isascii():
        line = line.translate(_INVISIBLE)
        if "File \u201c" in line:
            line = line.translate(_CURLY)
    return line


def _without_marks(lines: list[Numbered]) -> list[Numbered]:
    """Quote marks, fences, bullets, line numbers and common indentation taken off."""
    filled = [line for _, line in lines if line.strip()]
    if not filled:
        return lines
    firsts = {line.lstrip()[0] for line in filled[:64]}
    if not firsts & _MARKUP and not all(line[0] in " \t" for line in filled):
        return lines
    if sum(1 for line in filled if _QUOTE.match(line)) * 2 >= len(filled):
        lines = [(number, _QUOTE.sub("", line, count=1) if _QUOTE.match(line) else line) for number, line in lines]
    lines = [(number, line) for number, line in lines if not _FENCE.fullmatch(line)]
    if _all_bulleted(lines):
        lines = [(number, _BULLET.sub("", line, count=1) if _BULLET.match(line) else line) for number, line in lines]
    if _all_numbered(lines):
        lines = [(number, line[found.end() :] if (found := _GUTTER.match(line)) else line) for number, line in lines]
    return _dedented(lines)


def _all_bulleted(lines: Sequence[Numbered]) -> bool:
    filled = [line for _, line in lines if line.strip()]
    return len(filled) >= 2 and sum(1 for line in filled if _BULLET.match(line)) * 5 >= len(filled) * 4


def _all_numbered(lines: Sequence[Numbered]) -> bool:
    """Whether an editor's or ``grep -n``'s numbers stand in front: not the labels of ranks, which repeat or jump."""
    found = [(_GUTTER.match(line), line) for _, line in lines if line.strip()]
    numbers = [int(match["number"]) for match, _ in found if match is not None]
    if len(numbers) < 2 or len(numbers) < len(found):
        return False
    marks = {match["mark"].strip() or match["mark"] for match, _ in found if match is not None}
    rising = all(second > first for first, second in itertools.pairwise(numbers))
    one_by_one = rising and numbers[-1] - numbers[0] == len(numbers) - 1
    if marks <= {":"}:
        tight = any(match is not None and match["mark"] == ":" for match, _ in found)
        return (rising and tight and numbers[0] > 0) or (one_by_one and numbers[0] > 0 and len(numbers) >= 6)
    return one_by_one and (len(numbers) >= 3 or not marks <= {" ", "  ", "   "})


def _dedented(lines: list[Numbered]) -> list[Numbered]:
    filled = [line for _, line in lines if line.strip()]
    common = min((len(line) - len(line.lstrip(" \t")) for line in filled), default=0)
    return [(number, line[common:]) for number, line in lines] if common else lines


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
