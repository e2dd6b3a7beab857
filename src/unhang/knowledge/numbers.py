"""Numbers where text becomes one: a number that cannot be meant is no number (None), and nothing after it need ask.

Evidence is written by programs that crash: a line may hold an integer of any length, a float beyond every range, a
date of the year 300,000. Python reads some of these, refuses others (integers of more than 4,300 digits), and
arithmetic on what it read fails far from the line. So each kind of number has a range here, and text from evidence
becomes a number only here.
"""

from __future__ import annotations

import enum
import math
from datetime import datetime, timezone
from typing import Final

MAX_INTEGER: Final = 1 << 53
"""Of counts, sizes and positions: the largest integer that every reader of our JSON keeps exactly."""
MAX_RANKS: Final = 1 << 18
"""No job has as many processes: the largest that were told of have 100,000."""
MAX_SECONDS: Final = 100 * 365.25 * 86_400
"""Of durations and limits: a century. A longer limit means that somebody asked for none."""
EXIT_CODES: Final = range(-(1 << 31), 1 << 32)
_LONGEST: Final = 40
"""Characters of the longest text that is a number in range, signs, separators and fractions included."""


def integer(text: str, *, most: int = MAX_INTEGER) -> int | None:
    """The integer ``text`` spells (``12``, ``-3``, ``1,200``), if it is at most ``most`` and at least ``-most``."""
    if len(text) > _LONGEST:
        return None
    try:
        number = int(text.replace(",", ""))
    except ValueError:
        return None
    return number if -most <= number <= most else None


def rank(text: str) -> int | None:
    """A rank, of whatever group; also a local rank, a node's number, a task's."""
    number = integer(text)
    return number if number is not None and 0 <= number < MAX_RANKS else None


def ranks_up_to(first: str, last: str) -> range:
    """``3`` to ``7`` of ``3-7``, both included; nothing when either is no rank."""
    start, stop = rank(first), rank(last)
    return range(start, stop + 1) if start is not None and stop is not None else range(0)


def exit_code(text: str) -> int | None:
    """The code a process ended with, as launchers and schedulers print it."""
    number = integer(text)
    return number if number is not None and number in EXIT_CODES else None


def decimal(text: str, *, most: float = float(MAX_INTEGER)) -> float | None:
    """The finite number ``text`` spells (``12.5``, ``3e-4``), if its size is at most ``most``."""
    if len(text) > _LONGEST:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and abs(number) <= most else None


def finite_number(value: object) -> float | None:
    """The finite number that JSON, YAML, TOML or a word of a command holds; None for ``auto`` and for switches."""
    if isinstance(value, str):
        return decimal(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -MAX_INTEGER <= value <= MAX_INTEGER else None


def duration_s(text: str, unit_s: float = 1.0) -> float | None:
    """Seconds of a duration or limit that ``text`` gives in units of ``unit_s``."""
    number = decimal(text)
    return number * unit_s if number is not None and 0 <= number * unit_s <= MAX_SECONDS else None


def utc_time(time_s: float) -> datetime | None:
    """The moment ``time_s`` seconds after 1970 began (UTC); None where no calendar has it."""
    try:
        return datetime.fromtimestamp(time_s, tz=timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None


class TimeForm(enum.IntEnum):
    """How much of a moment its source tells. What it does not tell is never shown."""

    DAY = 0
    """Month, day and time, as NCCL's and glog's lines have it."""
    YEAR = 1
    ZONE = 2
    """All of it: it has a zone, or counts from the epoch."""


_FORMS = {TimeForm.DAY: "%m-%d %H:%M:%S", TimeForm.YEAR: "%Y-%m-%d %H:%M:%S"}


def time_text(time_s: float, form: TimeForm) -> str:
    """The moment in as much detail as its source has, with a zone in ISO 8601 (UTC); empty where no calendar has it."""
    told = utc_time(time_s)
    if told is None:
        return ""
    return told.isoformat(timespec="seconds") if form is TimeForm.ZONE else told.strftime(_FORMS[form])
