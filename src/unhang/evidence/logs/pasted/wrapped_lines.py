"""Lines that a chat, a mail or a terminal broke at a fixed width, joined again.

Where a line was broken is seen from the paste: lines that end exactly at one width, or whose next word would not have
fitted, followed by one that does not begin as lines of logs do. Nothing is joined unless messages or stack frames are
readable afterwards that were not before: tables of equal width stay as they are, and ordinary logs cost nothing.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

from unhang.evidence.logs.lines.prefixes import origin_fields
from unhang.evidence.logs.lines.progress import find_step
from unhang.knowledge.messages import load_messages, match_message
from unhang.late_pattern import late_pattern

NARROWEST, WIDEST = 30, 200
_GROUPS, _PIECES = 400, 60
"""So many broken lines are tried, of so many pieces at most."""
_PROOFS, _TORN = 2, 2
"""So many lines that tell more when joined prove that a paste was broken at a width."""
_FRAME = late_pattern(r'File "[^"]{1,1024}", line \d{1,9},? in \S')
_FRESH = late_pattern(
    r"\s*$|\s{2,}\S|\s*File \""
    r"|\[(?:rank|default)\d|\[[EWIF]\d{0,4}[ \d]|\[pod/|\([\w.<>-]+ (?:rank=\d+ )?pid=\d"
    r"|[EWIF]\d{4} \d\d:|\d{1,6}: |[\w.-]+:\d+:\d+ \[|Traceback |During handling|The above exception|frame #\d"
    r"|Exception |terminate called|  what\(\)|(?:\w+\.)*(?:[A-Z]\w*)?(?:Error|Exception|Interrupt):(?: |$)"
    r"|srun:|slurm|torchrun|\{'|={5}|-{5}|\+[-=]"
    r"|\d+%\||(?:NCCL|CUDA|TORCH)_\w+=|```"
)
_DOUBTFUL = late_pattern(r"[-*•] |\[?20\d\d[-/]|\[\d\d?[:/]|\[\d{4}-|(?:INFO|WARN|WARNING|ERROR|DEBUG|CRITICAL)\b")
"""Beginnings of lines that also occur inside of lines: joined when more is told then."""
_RULE = late_pattern(r"\s*([=*_#~+-])\1{4,}\s*")
_LONE_PREFIX = late_pattern(
    r"(?:\[[\w-]+\]:? ?)+|.{0,60}\[(?:rank|default)\d+\]: ?| *what\(\): *|\d{1,6}: ?|\([\w.<>-]+ pid=\d+[^)]*\) ?"
)
_OPEN_BAR = late_pattern(r"\d%\|[^\]]{0,200}$")
_BAR_BEGINS = late_pattern(r"\s*\d{1,3}%\|")
_WORD = late_pattern(r"[A-Za-z]{2,}")
_LAST_WORD = late_pattern(r"(?<![\w.])[A-Za-z]{2,}$")
_FIRST_WORD = late_pattern(r"[A-Za-z]{2,}(?![\w.])")
_DIGITS = late_pattern(r"\d")
NumberedLine = tuple[int, str]
"""A line and its number in the paste."""


def join_wrapped_lines(lines: Sequence[NumberedLine]) -> list[NumberedLine] | None:
    """The lines before they were broken, joined ones with the number of their first piece; None = none was broken."""
    widths = [_width(line) for _, line in lines]
    best = _Joined()
    for limit, by_words in itertools.product(_limits(widths), (False, True)):
        joined = _Joined()
        for group in itertools.islice(_groups(lines, widths, limit, by_words=by_words), _GROUPS):
            joined.add(lines, group, _whole(lines, group, limit, by_words=by_words))
        if not by_words and not joined.gained and limit == max(widths) and _torn_words(lines, widths, limit):
            joined.gained = 1
        if joined.gained > best.gained:
            best = joined
    return best.put_into(lines) if best.gained > 0 else None


def _torn_words(lines: Sequence[NumberedLine], widths: Sequence[int], limit: int) -> bool:
    """Words go on over the ends of lines of one width, again and again: no message, but surely a broken paste."""
    ends = [place for place, width in enumerate(widths[:-1]) if width == limit]
    torn = [place for place in ends if lines[place][1][-1].isalnum() and lines[place + 1][1][:1].isalnum()]
    return len(torn) >= _TORN and len(torn) * 2 >= len(ends)


class _Joined:
    """Broken lines joined under one guess of how they were broken."""

    def __init__(self) -> None:
        self.gained = 0
        self._better: dict[int, tuple[list[int], str]] = {}
        self._worse: dict[int, tuple[list[int], str]] = {}
        self._proofs = 0

    def add(self, lines: Sequence[NumberedLine], group: list[int], whole: str) -> None:
        """Take a group of pieces as ``whole``."""
        gain = information_score(whole) - sum(information_score(lines[index][1]) for index in group)
        (self._better if gain >= 0 else self._worse)[group[0]] = (group, whole)
        self.gained += max(gain, 0)
        self._proofs += gain > 0

    def put_into(self, lines: Sequence[NumberedLine]) -> list[NumberedLine]:
        """``lines`` with what was joined; once proved, also where the pieces seemed to tell more each on its own."""
        joined = {**self._better, **self._worse} if self._proofs >= _PROOFS else self._better
        inner = {index for group, _ in joined.values() for index in group[1:]}
        return [
            (number, joined[index][1] if index in joined else line)
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


def _groups(lines: Sequence[NumberedLine], widths: Sequence[int], limit: int, *, by_words: bool) -> Iterator[list[int]]:
    """Places of lines that belong together when lines were broken at ``limit``."""
    group = [0]
    for index in range(1, len(lines)):
        if len(group) < _PIECES and _goes_on(lines, widths, group, limit, by_words=by_words):
            group.append(index)
            continue
        if len(group) > 1:
            yield group
        group = [index]
    if len(group) > 1:
        yield group


def _goes_on(
    lines: Sequence[NumberedLine], widths: Sequence[int], group: Sequence[int], limit: int, *, by_words: bool
) -> bool:
    """Whether the line behind ``group`` goes on with its last."""
    index = group[-1] + 1
    before, line = lines[index - 1][1], lines[index][1]
    width = widths[index - 1]
    if not line.strip() or width > limit or _RULE.fullmatch(before) or _RULE.fullmatch(line):
        return False
    if by_words:
        if line.lstrip().startswith("|") and _inside_bar(before, line):
            return True  # the break swallowed the empty part of a progress bar, which is wide
        word = line.split(maxsplit=1)[0]
        if width + 1 + _width(word) <= limit:
            return False
        if _LONE_PREFIX.fullmatch(before) or _is_without_text(before):
            return True
    elif width < limit - 1 or (width == limit - 1 and before.isascii() and before[-1:] in ",;)]"):
        return False
    if _inside_bar(before, line):
        return True
    if _alike(lines[group[0]][1], line):
        return False
    if _DOUBTFUL.match(line) is not None:
        whole = _whole(lines, group, limit, by_words=by_words)
        longer = _whole(lines, [*group, index], limit, by_words=by_words)
        return information_score(longer) > information_score(whole) + information_score(line)
    return _FRESH.match(line) is None


def _inside_bar(before: str, line: str) -> bool:
    """Whether ``before`` ends inside of a progress bar, or with its label."""
    if _OPEN_BAR.search(before) is not None:
        return True
    return before.rstrip().endswith(":") and _BAR_BEGINS.match(line) is not None


def _alike(first: str, second: str) -> bool:
    """Lines of one program that only differ in numbers begin alike."""
    return len(second) >= 6 and _DIGITS.sub("0", first[:8]) == _DIGITS.sub("0", second[:8])


def _whole(lines: Sequence[NumberedLine], group: Sequence[int], limit: int, *, by_words: bool) -> str:
    """The pieces as one line, with the spaces that the breaks swallowed."""
    whole = lines[group[0]][1]
    for before, index in itertools.pairwise(group):
        piece, following = lines[before][1], lines[index][1]
        if piece.endswith(" ") or following.startswith(" "):
            space = ""
        elif by_words:
            word = (piece.split() or [""])[-1] + (following.split(maxsplit=1) or [""])[0]
            inside = _width(piece) >= limit and _width(word) > limit and not piece.endswith(",")
            space = "" if inside else " "
        else:
            space = " " if _width(piece) < limit or _two_words(piece, following) else ""
        whole += space + following
    return whole


def _two_words(piece: str, following: str) -> bool:
    """Whether a space was swallowed at the break: both sides are words that programs print, and not one together."""
    before, after = _LAST_WORD.search(piece), _FIRST_WORD.match(following)
    if before is None or after is None:
        return False
    return {before[0], after[0]} <= _printed_words() and before[0] + after[0] not in _printed_words()


@cache
def _printed_words() -> frozenset[str]:
    """Words in the examples of all messages that are known."""
    return frozenset(word for row in load_messages() for word in _WORD.findall(row.example))


def _width(line: str) -> int:
    """Columns on a terminal."""
    if line.isascii():
        return len(line)
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line)


def _is_without_text(line: str) -> bool:
    """Whether a line ends with a place in the source, behind which loggers write the text: none prints it alone."""
    file, _, number = line.rstrip().removesuffix("]").rpartition(":")
    return line.rstrip().endswith("]") and number.isdecimal() and file.endswith((".py", ".cpp", ".cc", ".cu", ".hpp"))


@lru_cache(maxsize=4096)
def information_score(line: str) -> int:
    """Score: messages with fields, prefixes, frames and steps found in ``line``; -1 for a mere prefix."""
    line = line[:20_000]
    if _is_without_text(line):
        return -1
    matches = match_message(line)
    messages = sum(2 + len(match.values) for match in matches if not match.row.fallback)
    if messages:
        messages += len(origin_fields(line))
    step = find_step(line) if len(line) < 4_000 else None
    steps = 0 if step is None else 1 + (step.total is not None) + (step.elapsed_s is not None)
    return messages + steps + (3 if _FRAME.search(line) else 0)
