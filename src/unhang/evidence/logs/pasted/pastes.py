"""Undo what chats, mails, editors and terminals do to pasted lines, so that they read as the log did.

Only small logs are looked at: marks around lines, letters that were replaced, and broken lines. The numbers of lines
stay those of the paste.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from unhang.evidence.items import LastLine, LogEnding, LogEvent, LogReading, ProcessExit, Progress, PythonTraceback
from unhang.evidence.logs.blocks import decoded
from unhang.evidence.logs.lines.prefixes import without_colours
from unhang.evidence.logs.pasted.paste_characters import original_characters
from unhang.evidence.logs.pasted.paste_markup import without_html, without_paste_markup
from unhang.evidence.logs.pasted.wrapped_lines import information_score, join_wrapped_lines

PASTE_BYTES = 1 << 18
_Item = TypeVar("_Item", LogEvent, PythonTraceback, ProcessExit, Progress, LastLine, LogEnding)


@dataclass(frozen=True, slots=True)
class RestoredPaste:
    """The log with its lines whole again; ``first_lines[i]`` is where line ``i`` of ``data`` began in the paste."""

    data: bytes
    first_lines: tuple[int, ...]
    lines: int
    """How many lines the paste had."""


def restore_paste(data: bytes) -> RestoredPaste | None:
    """The log as it was before it was pasted; None when nothing has to be undone."""
    if not data or len(data) > PASTE_BYTES:
        return None
    raw = data.split(b"\n")
    if not raw[-1]:
        raw.pop()
    original = [(number, decoded(line.removesuffix(b"\r"))) for number, line in enumerate(raw, start=1)]
    lines = original
    if b"[0m" in data:
        lines = [(number, without_colours(line)) for number, line in lines]
    lines = without_html(lines)
    lines = without_paste_markup([(number, original_characters(line, information_score)) for number, line in lines])
    lines = join_wrapped_lines(lines) or lines
    if lines == original:
        return None
    content = "".join(f"{line}\n" for _, line in lines)
    return RestoredPaste(content.encode("utf-8", "replace"), tuple(number for number, _ in lines), len(raw))


def with_paste_line_numbers(reading: LogReading, paste: RestoredPaste) -> LogReading:
    """``reading`` of the repaired log with the line numbers of the paste: of a joined line, where it began."""

    def placed(line: int) -> int:
        return paste.first_lines[line - 1] if 0 < line <= len(paste.first_lines) else line

    def moved(item: _Item) -> _Item:
        line = item.source.line
        return item if line is None else replace(item, source=replace(item.source, line=placed(line)))

    return replace(
        reading,
        events=tuple(map(moved, reading.events)),
        tracebacks=tuple(
            replace(moved(t), raised_line=t.raised_line and placed(t.raised_line)) for t in reading.tracebacks
        ),
        exits=tuple(map(moved, reading.exits)),
        progress=tuple(replace(moved(run), last_line=placed(run.last_line)) for run in reading.progress),
        last_lines=tuple(map(moved, reading.last_lines)),
        unrecognized_failures=tuple(map(moved, reading.unrecognized_failures)),
        said=tuple(map(moved, reading.said)),
        endings=tuple(map(moved, reading.endings)),
        started_line=placed(reading.started_line),
        lines=paste.lines,
    )
