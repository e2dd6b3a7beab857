"""A summary that is too long for one line, cut at a claim: what stands first, and what follows below it."""

from __future__ import annotations

import re
from itertools import islice

from rich.cells import cell_len

from unhang.report.layout.text_layout import line_starts
from unhang.report.printable import capitalized

HEADLINE = 80
"""Columns of a headline with its status, however wide the terminal."""
_LAST, _FIRST = -1, 0
_SENTENCE = re.compile(r"[;.] |[；。]")
_ENDS = (
    (_SENTENCE, _LAST),
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
        cuts = [found for found in end.finditer(text) if room // 6 <= cell_len(text[: found.start()]) <= room]
        if cuts:
            rest = text[cuts[which].end() :]
            return text[: cuts[which].start()], capitalized(rest) if cuts[which][0] in ("; ", ". ") else rest
    start = next(line_starts(text, room))
    return text[:start].rstrip(), text[start:]


def first_rows(text: str, room: int, rows: int = 2) -> str:
    """As much of ``text`` as stands in so many lines of ``room`` cells, cut between words."""
    cut = next(islice(line_starts(text, room - 1), rows - 1, None), None)
    return text if cut is None else f"{text[:cut].rstrip()}…"
