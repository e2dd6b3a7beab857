"""Undo what chats, mails, editors and terminals do to pasted lines, so that they read as the log did.

Only small logs are looked at: marks around lines, letters that were replaced, and broken lines. The numbers of lines
stay those of the paste.
"""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from unhang.evidence.items import LogReading
from unhang.evidence.logs.blocks import decoded
from unhang.evidence.logs.lines.prefixes import without_colours
from unhang.evidence.logs.pasted.wrapped_lines import NumberedLine, information_score, join_wrapped_lines
from unhang.late_pattern import late_pattern

_QUOTE = late_pattern(r" {0,3}(?:> ?)+")
_FENCE = late_pattern(r"\s*(?:```|~~~)[\w+-]*\s*")
_BULLET = late_pattern(r"\s{0,3}(?:[-*+•] |\d{1,4}[.)] )")
_GUTTER = late_pattern(r"\s{0,8}L?(?P<number>\d{1,7})(?P<mark>:(?! )|: |\s?[|│] ?|\t| {1,3})")
_MARKUP = frozenset(">-*+•`~&|│\t" + "".join(map(str, range(10))))
_TAG = late_pattern(
    r"</?(?:p|br|pre|code|samp|span|div|td|tr|table|tbody|thead|th|ul|ol|li|strong|em|font|html|body|head|meta"
    r"|blockquote|hr|section|article|h[1-6])(?:\s[^<>]{0,400})?/?>",
    re.IGNORECASE,
)
_PAGE = late_pattern(r"<(?:pre|br|span|div|td|code|p)(?:\s[^<>]{0,400})?/?>", re.IGNORECASE)
_BREAK = late_pattern(r"<(?:br|/p|/div|/tr|/li)\s?/?>(?=.)", re.IGNORECASE)
_RULE_OF_TABLE = late_pattern(r"\s*\|?(?:\s*:?-{2,}:?\s*\|)+(?:\s*:?-{2,}:?\s*)?\|?\s*")
_CELL_END = late_pattern(r"(?<!\\)\|")


def without_html(lines: list[NumberedLine]) -> list[NumberedLine]:
    """Tags of a web page taken off, when the paste is one; must come before entities are undone."""
    if sum(1 for _, line in lines if _PAGE.search(line)) * 2 < len(lines):
        return lines
    found: list[NumberedLine] = []
    for number, line in lines:
        if not _TAG.search(line):
            found.append((number, line))
            continue
        pieces = [_TAG.sub("", piece) for piece in _BREAK.split(line)]
        found.extend((number, piece) for piece in pieces if piece.strip())
    return found


def without_paste_markup(lines: list[NumberedLine]) -> list[NumberedLine]:
    """Quote marks, fences, tables, bullets, line numbers and common indentation taken off."""
    filled = [line for _, line in lines if line.strip()]
    if not filled:
        return lines
    firsts = {line.lstrip()[0] for line in filled[:64]}
    if not firsts & _MARKUP and not all(line[0] in " \t" for line in filled):
        return lines
    if sum(1 for line in filled if _QUOTE.match(line)) * 2 >= len(filled):
        lines = [(number, _QUOTE.sub("", line, count=1) if _QUOTE.match(line) else line) for number, line in lines]
    lines = _without_table(_without_fences(lines))
    if _all_bulleted(lines):
        lines = [(number, _BULLET.sub("", line, count=1) if _BULLET.match(line) else line) for number, line in lines]
    if _all_numbered(lines):
        lines = [(number, line[found.end() :] if (found := _GUTTER.match(line)) else line) for number, line in lines]
        lines = [(number, _cell(line)) for number, line in lines]
    return _dedented(lines)


def _without_fences(lines: list[NumberedLine]) -> list[NumberedLine]:
    """Without code fences; of a question with the log in fences, only what is inside them."""
    fences = [place for place, (_, line) in enumerate(lines) if _FENCE.fullmatch(line)]
    if not fences:
        return lines
    inside = [
        item
        for start, end in zip(fences[::2], fences[1::2], strict=False)
        for item in lines[start + 1 : end]
        if item[1].strip()
    ]
    if len(fences) % 2 == 0 and len(inside) * 2 > len(lines):
        return inside
    return [item for place, item in enumerate(lines) if place not in set(fences)]


def _without_table(lines: list[NumberedLine]) -> list[NumberedLine]:
    """Of a Markdown table (of a chat, a wiki) its widest column; tables that programs print have no such rule."""
    ruled = [place for place, (_, line) in enumerate(lines) if _RULE_OF_TABLE.fullmatch(line)]
    filled = [line for _, line in lines if line.strip()]
    if len(ruled) != 1 or not all(line.lstrip().startswith("|") for line in filled):
        return lines
    rows = [(number, _cells(line)) for number, line in lines[ruled[0] + 1 :] if line.strip()]
    if not rows:
        return lines
    columns = range(max(len(cells) for _, cells in rows))
    widest = max(columns, key=lambda column: sum(len(cells[column]) for _, cells in rows if column < len(cells)))
    return [(number, cells[widest]) for number, cells in rows if widest < len(cells)]


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [re.sub(r"\\\|", "|", cell).removeprefix(" ").rstrip() for cell in _CELL_END.split(inner)]


def _cell(line: str) -> str:
    """A cell that a sheet put into quotes, because it has some itself."""
    if len(line) > 2 and line[0] == line[-1] == '"' and '""' in line and '"' not in line[1:-1].replace('""', ""):
        return line[1:-1].replace('""', '"')
    return line


def _all_bulleted(lines: Sequence[NumberedLine]) -> bool:
    filled = [line for _, line in lines if line.strip()]
    return len(filled) >= 2 and sum(1 for line in filled if _BULLET.match(line)) * 5 >= len(filled) * 4


def _all_numbered(lines: Sequence[NumberedLine]) -> bool:
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


def _dedented(lines: list[NumberedLine]) -> list[NumberedLine]:
    filled = [line for _, line in lines if line.strip()]
    common = min((len(line) - len(line.lstrip(" \t")) for line in filled), default=0)
    return [(number, line[common:]) for number, line in lines] if common else lines


_ENTITY = late_pattern(r"&(?:lt|gt|amp|quot|#39|#x27|nbsp|#34|#160);")
_INVISIBLE = {
    **dict.fromkeys((0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2060, 0xFEFF, 0xAD)),
    **dict.fromkeys((0xA0, 0x2002, 0x2003, 0x2007, 0x2009, 0x202F, 0x3000), " "),
}
_CURLY = {0x201C: '"', 0x201D: '"', 0x2018: "'", 0x2019: "'"}
_DASHES = {0x2013: "-", 0x2014: "--", 0x2026: "...", 0x2192: "->"}
_WIDE = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_PAUSE = late_pattern(r"([：，；])(?=[^\s\d：，；/\[])")
_HAN = late_pattern(r"[\u3400-\u9fff]")
_REPLACED = late_pattern(r"[\u2013\u2014\u2018\u2019\u201c\u201d\u2026\u2192\uff01-\uff5e]")


def original_characters(line: str, tells: Callable[[str], float]) -> str:
    """``line`` with the letters of its program. ``tells`` says how much a line tells: doubtful ones need a reason."""
    if "&" in line and _ENTITY.search(line):
        line = html.unescape(line)
    if line.isascii():
        return line
    line = line.translate(_INVISIBLE)
    if not _REPLACED.search(line):
        return line
    quoted = line.translate(_CURLY)
    # Programs that speak Chinese print wide letters too: there, only what becomes readable by it is changed.
    if not _HAN.search(line):
        line = _narrow(quoted)
    better = _narrow(quoted).translate(_DASHES)
    return better if better != line and tells(better) > tells(line) else line


def _narrow(line: str) -> str:
    """Wide letters as narrow ones; a wide colon or comma stood for one with a space behind it, but before digits."""
    return _PAUSE.sub(r"\1 ", line).translate(_WIDE)


PASTE_BYTES = 1 << 18


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

    def moved(item: Any) -> Any:
        others = {name: placed(line) for name in _OTHER_LINES if (line := getattr(item, name, None))}
        return replace(item, source=replace(item.source, line=placed(item.source.line)), **others)

    return replace(reading.with_items(moved), started_line=placed(reading.started_line), lines=paste.lines)


_OTHER_LINES = ("raised_line", "last_line")
"""Of a traceback and of steps."""
