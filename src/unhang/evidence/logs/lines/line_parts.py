"""Parts of a line: what several processes print may run together, and of very long lines only some is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

from unhang.knowledge.messages import MessageRow
from unhang.late_pattern import late_pattern

PATTERN_CHARS = 8192
"""Patterns look at no more than this of a line, so that no line costs much."""
_BEHIND_A_BAR = late_pattern(
    r"(?<=\])(?=\[(?:rank|[A-Za-z_]{1,40})\d{1,6}\]:|Traceback \(most recent call last\)|\[?[EWIF] ?\d{3,4} \d\d:\d\d:)"
)
_BAR_END = late_pattern(r"\[[\d:]{4,16}<[^\[\]]{0,200}\]")
_RANK_HEADS = ("[rank", "[Rank", "[RANK")
_RANK_LABEL = late_pattern(r"(?<=[\w.!)])\[(?:rank|Rank|RANK)[ :=]?\d{1,6}(?:/\d{1,6})?\]")
"""A process writes its line and the end of it one after the other: that of another may come between them."""
_PARTS = 64
_Part = TypeVar("_Part", str, bytes)


def split_where_run_together(whole: str) -> list[str]:
    """``whole`` cut where the next begins: what another process says, or the next state of a bar whose carriage return
    was lost."""
    if "%|" in whole:
        first = whole.find("%|")
        places = {behind.start()} if (behind := _BEHIND_A_BAR.search(whole, first)) is not None else set()
        places |= {end.end() for end in _BAR_END.finditer(whole, 0, whole.rfind("%|"))}
    elif whole[:5] in _RANK_HEADS and whole.find(whole[:5], 5) > 0:
        places = {label.start() for label in _RANK_LABEL.finditer(whole, 1)}
    else:
        return [whole]
    return [whole[start:stop] for start, stop in pairwise((0, *sorted(places), len(whole)))]


def first_and_last_parts(parts: list[_Part], says: Callable[[_Part], bool]) -> list[_Part]:
    """``parts`` of one line; of very many the first and the last, and those in between that say something."""
    if len(parts) <= _PARTS:
        return parts
    return parts[:16] + [part for part in parts[16:-48] if says(part)] + parts[-48:]


def literals_of(rows: Sequence[MessageRow]) -> list[str]:
    """The literals by which ``rows`` are searched, in their order."""
    return [anchor for row in rows for anchor in row.anchors]


def rows_matching(text: str, rows: Sequence[MessageRow]) -> list[MessageRow]:
    """Those of ``rows`` of which a literal stands in this part of their line."""
    return [row for row in rows if any(anchor in text for anchor in row.anchors)]


def searchable_part(whole: str, rows: Sequence[MessageRow]) -> str:
    """What patterns look at: of a very long line its beginning, and the surroundings of the first message in it."""
    if len(whole) <= PATTERN_CHARS:
        return whole
    at = min((place for place in map(whole.find, literals_of(rows)) if place >= 0), default=0)
    if at < PATTERN_CHARS // 2:
        return whole[:PATTERN_CHARS]
    return f"{whole[:256]} … {whole[at - 512 : at + PATTERN_CHARS // 2]}"
