"""Make text from evidence safe to show: no control codes, no hidden direction changes, always encodable.

Log lines may hold terminal escapes, NUL bytes, bidirectional overrides (which make a line read differently from what
it is) and halves of surrogate pairs (from undecodable file names). None of them may reach a terminal or a page.
"""

from __future__ import annotations

import re
import unicodedata

from unhang.sentences import message_of_line

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_HIDDEN = frozenset(("Cc", "Cf", "Zl", "Zp"))
"""Categories of Unicode that show nothing themselves and act on what is around: controls, formats, separators."""


def printable(text: str) -> str:
    """``text`` without escapes, control and direction characters; tabs and newlines stay."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return "\n".join(line if line.isprintable() else "".join(map(_shown, line)) for line in text.split("\n"))


def _shown(character: str) -> str:
    if character.isprintable() or character == "\t":
        return character
    category = unicodedata.category(character)
    if category == "Cs":
        return "\ufffd"
    return "" if category in _HIDDEN else character


def one_line(text: str, limit: int = 0) -> str:
    """``text`` on one line with single blanks; cut as a line of a log beyond ``limit`` characters (0 = never)."""
    line = " ".join(printable(text).split())
    return message_of_line(line, limit) if limit else line


def capitalized(spoken: str) -> str:
    """A sentence that begins with a capital, unless it begins with a name (``loss.backward``) or a command of ours."""
    first = spoken.split(" ", 1)[0].rstrip(",:;")
    named = first == "unhang" or not (first.isascii() and first.isalpha() and first.islower())
    return spoken if named else spoken[:1].upper() + spoken[1:]
