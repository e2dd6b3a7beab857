"""Lines that a chat, a mail or a terminal broke at a fixed width, joined again.

Where a line was broken is seen from the paste: lines that end exactly at one width, or whose next word would not have
fitted, followed by one that does not begin as lines of logs do. Nothing is joined unless messages or stack frames are
readable afterwards that were not before: tables of equal width stay as they are, and ordinary logs cost nothing.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence

from unhang.knowledge.messages import match_message

NARROWEST, WIDEST = 30, 200
_GROUPS, _PIECES = 400, 60
"""So many broken lines are tried, of so many pieces at most."""
_FRAME = re.compile(r'File "[^"]{1,1024}", line \d{1,9}, in \S')
_FRESH = re.compile(
    r"\s*$|\s{2,}\S|\s*File \""
    r"|\[(?:rank|default)\d|\[[EWIF]\d{0,4}[ \d]|\[\d{4}-|\[\d\d?[:/]|\[pod/|\[20\d\d|20\d\d[-/]"
    r"|[EWIF]\d{4} \d\d:|\d{1,6}: |[\w.-]+:\d+:\d+ \[|Traceback |During handling|The above exception|frame #\d"
    r"|Exception |terminate called|  what\(\)|(?:\w+\.)*\w*(?:Error|Exception|Interrupt): |(?:INFO|WARN|WARNING|ERROR"
    r"|DEBUG|CRITICAL)\b|srun:|slurm|torchrun|\{'|={5}|-{5}|\+[-=]"
    r"|[-*•] |\d+%\||(?:NCCL|CUDA|TORCH)_\w+=|```"
)
_DIGITS = re.compile(r"\d")
Numbered = tuple[int, str]
"""A line and its number in the paste."""


def unwrapped(lines: Sequence[Numbered]) -> list[Numbered] | None:
    """The lines before they were broken, joined ones with the number of their first piece; None = none was broken."""
    widths = [_width(line) for _, line in lines]
    best: dict[int, tuple[list[int], str]] = {}
    most = 0
    for limit, by_words in itertools.product(_limits(widths), (False, True)):
        joined: dict[int, tuple[list[int], str]] = {}
        gained = 0
        for group in itertools.islice(_groups(lines, widths, limit, by_words=by_words), _GROUPS):
            whole = _whole(lines, group, limit, by_words=by_words)
            gain = _told(whole) - sum(_told(lines[index][1]) for index in group)
            if gain >= 0:
                joined[group[0]] = (group, whole)
                gained += gain
        if gained > most:
            best, most = joined, gained
    if not best:
        return None
    inner = {index for group, _ in best.values() for index in group[1:]}
    return [
        (number, best[index][1] if index in best else line)
        for index, (number, line) in enumerate(lines)
        if index not in inner
    ]


def _limits(widths: Sequence[int]) -> list[int]:
    """Widths at which lines may have been broken: the greatest, and those that many lines have."""
    counts = Counter(width for width in widths if NARROWEST <= width <= WIDEST)
    if not counts:
        return []
    common = [width for width, count in counts.most_common(3) if count >= 2]
    return list(dict.fromkeys((max(counts), *common)))


def _groups(lines: Sequence[Numbered], widths: Sequence[int], limit: int, *, by_words: bool) -> Iterator[list[int]]:
    """Places of lines that belong together when lines were broken at ``limit``."""
    group = [0]
    for index in range(1, len(lines)):
        if len(group) < _PIECES and _goes_on(lines, widths, index, limit, by_words=by_words, head=group[0]):
            group.append(index)
            continue
        if len(group) > 1:
            yield group
        group = [index]
    if len(group) > 1:
        yield group


def _goes_on(
    lines: Sequence[Numbered], widths: Sequence[int], index: int, limit: int, *, by_words: bool, head: int
) -> bool:
    """Whether the line at ``index`` goes on with the one before it."""
    before, line = lines[index - 1][1], lines[index][1]
    width = widths[index - 1]
    if not line.strip() or width > limit:
        return False
    if by_words:
        word = line.split(maxsplit=1)[0]
        if width + 1 + _width(word) <= limit:
            return False
    elif width < limit - 1 or (width == limit - 1 and before.isascii() and before[-1:] in ",;)]"):
        return False
    return _FRESH.match(line) is None and not _alike(lines[head][1], line)


def _alike(first: str, second: str) -> bool:
    """Lines of one program that only differ in numbers begin alike."""
    return len(second) >= 6 and _DIGITS.sub("0", first[:8]) == _DIGITS.sub("0", second[:8])


def _whole(lines: Sequence[Numbered], group: Sequence[int], limit: int, *, by_words: bool) -> str:
    """The pieces as one line, with the spaces that the breaks swallowed."""
    whole = lines[group[0]][1]
    for before, index in itertools.pairwise(group):
        piece, following = lines[before][1], lines[index][1]
        if piece.endswith(" ") or following.startswith(" "):
            space = ""
        elif by_words:
            word = (piece.split() or [""])[-1] + (following.split(maxsplit=1) or [""])[0]
            space = "" if _width(piece) >= limit and _width(word) > limit else " "
        else:
            space = " " if _width(piece) < limit else ""
        whole += space + following
    return whole


def _width(line: str) -> int:
    """Columns on a terminal."""
    if line.isascii():
        return len(line)
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line)


def _told(line: str) -> int:
    """How much a line tells: its messages with their fields, a stack frame."""
    told = sum(2 + len(match.values) for match in match_message(line[:20_000]) if not match.row.fallback)
    return told + (3 if _FRAME.search(line) else 0)
