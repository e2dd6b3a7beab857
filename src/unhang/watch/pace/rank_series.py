"""``series/ranks.jsonl`` in the run folder: how far each rank came, how fast, and what it did, from start to end.

A row holds some seconds of one rank. The file keeps below ``MAX_BYTES`` however long the job runs: when it is full,
neighbouring rows are made one, and rows are twice as long from then on.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unhang.watch import private_files
from unhang.watch.job.wait_detection import RankSample, is_in_communication
from unhang.wire.documents.rank_series import SCHEMA, SERIES_PATH
from unhang.wire.record_views import RecordView

MAX_BYTES = 4 << 20
FIRST_WIDTH_S = 1.0
FLUSH_S = 5.0
MAX_RANKS = 2_048
"""Of more ranks on one machine nothing is kept."""
MAX_SITES = 4_096
SITES_A_ROW = 8


@dataclass(slots=True)
class _Row:
    """One stretch of one rank that is not over yet: from ``first`` to ``last``."""

    since: float
    first: RecordView
    last: RecordView
    samples: int = 0
    waits: int = 0
    longest_ns: int = 0
    doing: Counter[tuple[int, str, int]] = field(default_factory=Counter)
    """Samples by (site, phase, whether it stood in communication)."""

    def goes_on(self, view: RecordView) -> bool:
        """Not started again, and not counted anew."""
        mine = self.last
        return mine.identity.pid == view.identity.pid and mine.steps <= view.steps

    def add(self, view: RecordView, site: int) -> None:
        """One more sample."""
        new, waits = view.steps - self.last.steps, is_in_communication(view)
        if new > 0:
            self.longest_ns = max(self.longest_ns, *view.step_durations_ns[-new:], 0)
        self.doing[site, view.phase, waits] += 1
        self.samples += 1
        self.waits += waits
        self.last = view

    def document(self, rank: int) -> dict[str, Any]:
        """The row as a JSON object."""
        took_ns = self.last.last_step_ns - self.first.last_step_ns if self.first.last_step_ns > 0 else 0
        done = self.last.steps - self.first.steps if took_ns > 0 else 0
        begun_ns = self.first.beat_ns if self.first.beat_ns > 0 else self.last.beat_ns  # seen before its first beat
        return {
            "rank": rank,
            "attempt": self.last.identity.attempt,
            "at_s": round(self.last.beat_wall_ns / 1e9, 1),
            "step": self.last.steps,
            "steps": done,
            "took_s": round(took_ns / 1e9, 6) if done else 0,
            "longest_s": round(self.longest_ns / 1e9, 6) if done else 0,
            "for_s": round((self.last.beat_ns - begun_ns) / 1e9, 3),
            "calls": max((group.completed for group in self.last.groups), default=0),
            "calls_a_step": self.last.collectives_per_step,
            "looks": self.samples,
            "waits": self.waits,
            "doing": [[*what, count] for what, count in self.doing.most_common(SITES_A_ROW)],
        }


class RankSeries:
    """Writes the series of one run. A watcher that was started again goes on with what it finds."""

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self._path = folder / SERIES_PATH
        self._max_bytes = max_bytes
        self._width_s = FIRST_WIDTH_S
        self._size = -1
        self._rows: dict[int, _Row] = {}
        self._sites: dict[tuple[str, int, str], int] = {}
        self._waiting: list[str] = []
        self._flushed = 0.0

    def add(self, samples: Mapping[int, RankSample], now: float | None = None) -> None:
        """One sample of every rank; ``now`` is monotonic seconds. A folder that takes nothing is not worth an error."""
        now = time.monotonic() if now is None else now
        if not 0 < len(samples) <= MAX_RANKS:
            return
        if self._size < 0:
            self._begin()
        for rank in sorted(samples):
            if samples[rank].ended_ns is None:
                self._look(rank, samples[rank].view, now)
        if now - self._flushed >= FLUSH_S:
            self.flush(now)

    def close(self) -> None:
        """The job is over: write what is open too."""
        for rank, row in sorted(self._rows.items()):
            self._waiting.append(_line(row.document(rank)))
        self._rows.clear()
        self.flush(time.monotonic())

    def flush(self, now: float) -> None:
        """Write the rows that are over."""
        self._flushed = now
        content = "".join(self._waiting).encode()
        self._waiting.clear()
        with suppress(OSError):
            if content:
                private_files.append(self._path, content)
                self._size += len(content)
            if self._size > self._max_bytes:
                self._thin()

    def _look(self, rank: int, view: RecordView, now: float) -> None:
        row = self._rows.get(rank)
        if row is not None and not row.goes_on(view):
            self._waiting.append(_line(row.document(rank)))
            row = None
        if row is None:
            row = self._rows[rank] = _Row(now, view, view)
        user = view.user if view.user.file else view.top
        row.add(view, self._site((user.file, user.line, user.function)))
        if now - row.since >= self._width_s:
            self._waiting.append(_line(row.document(rank)))
            self._rows[rank] = _Row(now, view, view)

    def _site(self, place: tuple[str, int, str]) -> int:
        """The number of a line; it is written once. 0 stands for those beyond ``MAX_SITES``."""
        number = self._sites.get(place)
        if number is None:
            number = len(self._sites) + 1
            if number > MAX_SITES:
                return 0
            self._sites[place] = number
            self._waiting.append(_line({"site": number, "place": list(place)}))
        return number

    def _begin(self) -> None:
        """Start the file, or find out how far an earlier watcher came with it."""
        self._size = 0
        with suppress(OSError, ValueError, KeyError, TypeError):
            for found in _read_rows(self._path):
                if "schema" in found:
                    self._width_s = float(found["width_s"])
                elif "site" in found:
                    file, line, function = found["place"]
                    self._sites[(file, line, function)] = found["site"]
        with suppress(OSError):
            private_files.make_folder(self._path.parent)
            self._size = self._path.stat().st_size
        if not self._size:
            self._waiting.append(self._head())

    def _head(self) -> str:
        return _line({"schema": SCHEMA, "width_s": self._width_s})

    def _thin(self) -> None:
        """Make every two neighbouring rows of a rank one."""
        self._width_s *= 2
        sites = [_line(found) for found in _read_rows(self._path) if "site" in found]
        content = "".join((self._head(), *sites, *map(_line, _halved_rows(self._path)))).encode()
        private_files.write_atomically(self._path, content)
        self._size = len(content)
        if self._size > self._max_bytes // 2 + len(self._head()):
            self._max_bytes = max(self._max_bytes, 2 * self._size)  # many lines, or many ranks: not at every flush


def _halved_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of the file, of every two neighbouring ones of a rank one."""
    open_rows: dict[int, dict[str, Any]] = {}
    for found in _read_rows(path):
        if "rank" not in found:
            continue
        before = open_rows.pop(found["rank"], None)
        if before is None:
            open_rows[found["rank"]] = found
        elif before["attempt"] == found["attempt"] and before["step"] <= found["step"]:
            yield _merge_rows(before, found)
        else:
            yield before
            open_rows[found["rank"]] = found
    yield from (row for _, row in sorted(open_rows.items()))


def _merge_rows(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    doing: Counter[tuple[Any, ...]] = Counter()
    for *what, count in (*first["doing"], *second["doing"]):
        doing[tuple(what)] += count
    row = {
        **second,
        **{key: round(first[key] + second[key], 6) for key in ("steps", "took_s", "looks", "waits", "for_s")},
    }
    row["longest_s"] = max(first["longest_s"], second["longest_s"])
    row["doing"] = [[*what, count] for what, count in doing.most_common(SITES_A_ROW)]
    return row


def _read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of the file that are whole."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            with suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    yield found


def _line(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":")) + "\n"
