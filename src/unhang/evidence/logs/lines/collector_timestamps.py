"""The time, and sometimes the host, that a collector or a viewer put in front of every line of a log.

Loggers write their time into their own lines only. In front of tracebacks, of lines of torch and NCCL that carry their
own time, it was put by somebody else: journald, W&B, a web page of a scheduler, ``ts``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from unhang.late_pattern import late_pattern

_SECONDS = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_STAMPS = (
    late_pattern(
        rf"\[?(?P<time>20\d\d[-/]\d\d[-/]\d\d[ T]{_SECONDS}(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?)\]?"
        r"(?: [|│] |[|│]|\t|: | (?:std(?:out|err)(?:: | [FP] ))?|$)"
    ),
    late_pattern(
        rf"(?P<time>[A-Z][a-z][a-z] [ \d]\d {_SECONDS}) (?P<host>[\w.-]{{1,80}}) "
        r"[\w./@:-]{1,64}\[\d{1,10}\]:(?: |$)"
    ),
    late_pattern(rf"\[?{_SECONDS}\]?(?: [|│] |[|│]|\t| |$)"),
)
_OWN_BEGINNING = late_pattern(
    r"\[rank\d|\[default\d|\[[EWIF] ?\d{0,4}[ \d]|Traceback \(most|  File \"|\w+Error: |[EWIF]\d{4} \d\d:"
    r"|[\w.-]+:\d+:\d+ \[|\d{1,5}: |[A-Za-z][\w-]*\d[\w.-]*: |\+ \w|.{0,40}20\d\d[-/]\d\d[-/]\d\d[ T_]\d\d:"
)
"""How lines begin in front of which their program writes no time (or its own)."""


def collector_timestamp_pattern(lines: Sequence[str]) -> re.Pattern[str] | None:
    """The pattern of the stamp in front of nearly all ``lines``, also of those that no logger writes; None without."""
    for stamp in _STAMPS:
        found = [match for line in lines if (match := stamp.match(line)) is not None]
        if not found or len(found) * 10 < len(lines) * 9:
            continue
        if any(_OWN_BEGINNING.match(match.string, match.end()) for match in found):
            return stamp
    return None
