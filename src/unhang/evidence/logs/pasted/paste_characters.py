"""Letters that browsers, input methods and word processors put in place of those a program had printed."""

from __future__ import annotations

import html
from collections.abc import Callable

from unhang.late_pattern import late_pattern

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
