"""A summary that is too long for one line, cut at a claim: what stands first, and what follows below it."""

from __future__ import annotations

import re

from rich.cells import cell_len

from unhang.report.layout.text_layout import line_starts

HEADLINE = 80
"""Columns of a headline with its status, however wide the terminal."""
_LAST, _FIRST = -1, 0
_ENDS = (
    (re.compile(r"[;.] |[；。]"), _LAST),
    (re.compile(r": |："), _FIRST),  # what follows is somebody's words, which may hold more of them
    (re.compile(r", (?=\D)|，| (?=\()|(?=（)"), _LAST),  # a comma between numbers ends nothing
    (re.compile(r" (?=and |but |while |because )"), _LAST),
)
"""Where a claim ends, the most finished first, and which of several counts."""


def split_claim(text: str, room: int) -> tuple[str, str]:
    """``text`` as the longest claim of at most ``room`` cells that it begins with, and the rest; without such a claim
    the cut is between words. Chinese counts double."""
    if cell_len(text) <= room:
        return text, ""
    for end, which in _ENDS:
        cuts = [found for found in end.finditer(text) if room // 4 <= cell_len(text[: found.start()]) <= room]
        if cuts:
            return text[: cuts[which].start()], text[cuts[which].end() :]
    start = next(line_starts(text, room))
    return text[:start].rstrip(), text[start:]
