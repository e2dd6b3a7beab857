"""What chats, editors, web pages and sheets put around pasted lines, taken off again."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from unhang.evidence.logs.pasted.wrapped_lines import NumberedLine
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
