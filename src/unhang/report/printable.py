"""Make text from evidence safe to show: no control codes, no hidden direction changes, always encodable.

Log lines may hold terminal escapes, NUL bytes, bidirectional overrides (which make a line read differently from what
it is) and halves of surrogate pairs (from undecodable file names). None of them may reach a terminal or a page.
"""

from __future__ import annotations

import re

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def printable(text: str) -> str:
    """``text`` without escapes, control and direction characters; tabs and newlines stay."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return _SURROGATES.sub("\ufffd", _HIDDEN.sub("", text))


def one_line(text: str, limit: int = 0) -> str:
    """``text`` on one line with single blanks; cut with an ellipsis beyond ``limit`` characters (0 = never)."""
    line = " ".join(printable(text).split())
    if limit and len(line) > limit:
        return line[: limit - 1].rstrip() + "…"
    return line
