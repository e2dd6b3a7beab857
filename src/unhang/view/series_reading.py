"""``series/ranks.jsonl`` of a run as it grows: what every rank did, from start to end.

The watcher's file is replaced when it is full and its rows made longer; a reader then begins anew and says so by a new
``generation``.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import msgspec

from unhang.view.regular_files import open_regular
from unhang.wire.documents.rank_series import SERIES_PATH, Line, read_lines
from unhang.wire.record_views import PHASES

MAX_BYTES = 64 << 20
MAX_ROWS = 400_000
MAX_SITES = 1 << 14
WAITS = len(PHASES)
"""Added to the number of a phase where the rank waited for others in it."""
SMALLEST_SHARE = 0.02
_NUMBERS = {phase: number for number, phase in enumerate(PHASES)}
_OTHER = _NUMBERS["other"]


class SeriesRow(msgspec.Struct, array_like=True, frozen=True):
    """Some seconds of one rank. ``end_s``: seconds since the epoch; ``site``: of most samples, -1 without one.

    ``mix`` holds what it did: number of a phase (``WAITS`` added where it waited) and its share in percent, in turns.
    """

    rank: int
    end_s: float
    for_s: float
    step: int
    site: int
    mix: list[int]

    @property
    def most(self) -> int:
        """What it did for the largest part; -1 where nothing was seen."""
        pairs = list(zip(self.mix[1::2], self.mix[::2], strict=True))
        return max(pairs)[1] if pairs else -1


class RankRows:
    """The rows of a run's ranks; :meth:`read` takes in what is new. One thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / SERIES_PATH
        self._file = (0, 0)
        self._offset = 0
        self._sites: dict[int, int] = {}
        self._ends: dict[int, float] = {}
        self._width_s = 1.0
        self.generation = 0
        self.rows: list[SeriesRow] = []
        self.sites: list[str] = []

    def read(self) -> None:
        """Take in whole lines that were added, or all of them if the file is another one."""
        try:
            with open_regular(self._path) as file:
                found = os.fstat(file.fileno())
                if (found.st_dev, found.st_ino) != self._file or found.st_size < self._offset:
                    self._begin((found.st_dev, found.st_ino))
                file.seek(self._offset)
                data = file.read(max(0, MAX_BYTES - self._offset))
        except OSError:
            return
        whole = data.rpartition(b"\n")[0]
        self._offset += len(whole) + 1 if whole else 0
        for line in read_lines(whole.splitlines()):
            self._take(line)

    def _begin(self, file: tuple[int, int]) -> None:
        self._file, self._offset, self.generation = file, 0, self.generation + 1
        self.rows, self.sites, self._sites, self._ends = [], [], {}, {}

    def _take(self, line: Line | None) -> None:
        if line is None:
            return
        if line.schema and 0 < line.width_s < 1e9:
            self._width_s = line.width_s
        elif line.site >= 0 and len(self.sites) < MAX_SITES:
            self._sites[line.site] = len(self.sites)
            file, number, function = line.place
            self.sites.append(f"{file[:1024]}:{number} {function[:256]}".rstrip())
        else:
            self._add(line)

    def _add(self, line: Line) -> None:
        if _can_be(line) and len(self.rows) < MAX_ROWS:
            self.rows.append(self._row(line))

    def _row(self, line: Line) -> SeriesRow:
        mix, site = _mix(line.doing)
        # never into the row before; the first one of a rank may begin before its clock was set
        room_s = line.at_s - self._ends[line.rank] if line.rank in self._ends else max(5.0, 2 * self._width_s)
        for_s = max(0.0, min(line.for_s or 1.0, room_s))
        self._ends[line.rank] = line.at_s
        step = line.step if 0 <= line.step < 1 << 53 else 0
        return SeriesRow(line.rank, round(line.at_s, 1), round(for_s, 1), step, self._sites.get(site, -1), mix)


@lru_cache(maxsize=1 << 14)
def _mix(doing: tuple[tuple[int, str, bool, int], ...]) -> tuple[list[int], int]:
    """``Row.mix``, and the number of the site of most samples. Many rows are alike: waiting looks the same
    everywhere."""
    looks: dict[int, int] = {}
    sites: dict[int, int] = {-1: 0}
    for site, phase, waits, count in doing[:64]:
        if 0 < count < 1 << 32:
            number = _NUMBERS.get(phase, _OTHER) + WAITS * waits
            looks[number] = looks.get(number, 0) + count
            sites[site] = sites.get(site, 0) + count
    total = sum(looks.values())
    mix = [
        number
        for kind, count in sorted(looks.items(), key=lambda look: -look[1])
        if count >= SMALLEST_SHARE * total
        for number in (kind, round(100 * count / total))
    ]
    return mix, max(sites, key=lambda site: sites[site])


def _can_be(line: Line) -> bool:
    return 0 <= line.rank < 1 << 24 and 0 < line.at_s < 1e11 and 0 <= line.for_s < 1e9
