"""Time stamps as logs write them. Times without a zone are taken as UTC: only differences inside a job matter."""

from __future__ import annotations

import re
from datetime import datetime, timezone

from unhang.knowledge import numbers
from unhang.knowledge.numbers import TimeForm
from unhang.late_pattern import late_pattern

_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: index + 1 for index, name in enumerate(_MONTH_NAMES)}
_CLOCK = r"(?P<h>[01]\d|2[0-3]):(?P<mi>[0-5]\d):(?P<s>[0-6]\d)(?:[.,](?P<f>\d{1,9}))?"
_FULL = late_pattern(
    rf"(?<![\d.])(?P<y>20\d\d|(?<!\d)[12]\d)(?P<sep>[-/])(?P<mo>[01]\d)(?P=sep)(?P<d>[0-3]\d)[ T_]\s?{_CLOCK}"
    r"\s?(?P<z>Z|[+-]\d\d:?\d\d)?"
)
_AMERICAN = late_pattern(rf"(?<![\d/])(?P<mo>[01]\d)/(?P<d>[0-3]\d)/(?P<y>20\d\d)[ T,]+{_CLOCK}")
_SYSLOG = late_pattern(rf"(?P<month>{'|'.join(_MONTHS)}) {{1,2}}(?P<d>\d{{1,2}}) {_CLOCK}")
_GLOG = late_pattern(rf"(?:^|\[|\s)[EWIF](?P<mo>1[0-2]|0?[1-9])(?P<d>[0-3]\d) {_CLOCK}")
_MONTH_DAY = late_pattern(rf"(?<![\d-])(?P<mo>0[1-9]|1[0-2])[-/](?P<d>[0-3]\d) {_CLOCK}")
_ZEROS = str.maketrans("123456789", "000000000")
_LOOK_AT = 160
"""Characters of a line in which its time can stand."""


class TimestampReader:
    """Reads the time of lines; one per log, because dates without a year take the year of the log."""

    def __init__(self, *, year: int, latest_s: float | None = None) -> None:
        """``year`` for dates without one; ``latest_s`` (modification time of the file) keeps them out of the future."""
        self.year = year
        self.has_year = False
        """A line of the log has a year: the others are of it too."""
        self._latest_s = latest_s
        self._days: dict[tuple[int, int, int], float | None] = {}
        self._asked: tuple[str, float | None, TimeForm] = ("", None, TimeForm.DAY)

    def time_of(self, text: str) -> float | None:
        """Seconds since the epoch of a line, or None. ``text`` is the line with its prefixes."""
        return self._read_once(text)[1]

    def time_form(self, text: str) -> TimeForm:
        """How much of its moment the line itself tells."""
        form = self._read_once(text)[2]
        return TimeForm.YEAR if self.has_year and form is TimeForm.DAY else form

    def _read_once(self, text: str) -> tuple[str, float | None, TimeForm]:
        if text is not self._asked[0]:  # the same line is asked about several times
            self._asked = (text, *self._read(text[:_LOOK_AT]))
        return self._asked

    def _read(self, head: str) -> tuple[float | None, TimeForm]:
        if "0:00:00" not in head.translate(_ZEROS):
            return None, TimeForm.DAY
        found = _FULL.search(head)
        if found is not None:
            year = int(found["y"])
            time_s = self._seconds(year if year > 99 else 2000 + year, int(found["mo"]), found, found["z"])
            return time_s, TimeForm.ZONE if found["z"] else TimeForm.YEAR
        found = _GLOG.search(head)
        if found is not None:
            return self._without_year(int(found["mo"]), found), TimeForm.DAY
        found = _SYSLOG.search(head)
        if found is not None:
            return self._without_year(_MONTHS[found["month"]], found), TimeForm.DAY
        found = _AMERICAN.search(head)
        if found is not None:
            return self._seconds(int(found["y"]), int(found["mo"]), found, None), TimeForm.YEAR
        found = _MONTH_DAY.search(head)
        if found is not None:
            return self._without_year(int(found["mo"]), found), TimeForm.DAY
        return None, TimeForm.DAY

    def _without_year(self, month: int, found: re.Match[str]) -> float | None:
        time_s = self._seconds(self.year, month, found, None)
        if time_s is not None and self._latest_s is not None and time_s > self._latest_s + 2 * 86_400:
            return self._seconds(self.year - 1, month, found, None)
        return time_s

    def _seconds(self, year: int, month: int, found: re.Match[str], zone: str | None) -> float | None:
        day = self._day(year, month, int(found["d"]))
        if day is None:
            return None
        fraction = found["f"]
        time_s = day + int(found["h"]) * 3600 + int(found["mi"]) * 60 + int(found["s"])
        if fraction:
            time_s += int(fraction) / 10 ** len(fraction)
        if zone and zone != "Z":
            digits = zone[1:].replace(":", "")
            offset = int(digits[:2]) * 3600 + int(digits[2:]) * 60
            time_s -= offset if zone[0] == "+" else -offset
        return time_s

    def _day(self, year: int, month: int, day: int) -> float | None:
        key = (year, month, day)
        if key not in self._days:
            if len(self._days) > 10_000:
                self._days.clear()
            try:
                self._days[key] = datetime(year, month, day, tzinfo=timezone.utc).timestamp()
            except ValueError:
                self._days[key] = None
        return self._days[key]


def year_in(sample: str) -> int | None:
    """The first full date's year in a piece of log, or None."""
    found = _FULL.search(sample) or _AMERICAN.search(sample)
    if found is None:
        return None
    year = int(found["y"])
    return year if year > 99 else 2000 + year


def elapsed_s(text: str) -> float | None:
    """Seconds of ``29:57``, ``1:54:39`` or ``1 day, 3:11:02`` as progress bars print them."""
    days: float | None = 0
    found = re.match(r"(\d+) days?, (.*)", text)
    if found:
        days, text = numbers.duration_s(found[1], 86_400), found[2]
    parts = text.split(":")
    if not 2 <= len(parts) <= 3 or days is None:
        return None
    total = days
    for unit_s, part in zip((1, 60, 3600), reversed(parts), strict=False):
        seconds = numbers.duration_s(part, unit_s)
        if seconds is None:
            return None
        total += seconds
    return total
