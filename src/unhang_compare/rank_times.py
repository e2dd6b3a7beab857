"""Time per step and activity of one rank: the form in which profiler traces and a watcher's samples are compared.

In ``series/ranks.jsonl`` a rank's time is known from samples a few times a second: what was seen in a third of them
took a third of the step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from unhang.findings import Phase, Source, Unread, Where
from unhang.wire.documents.rank_series import SCHEMA, Line, read_lines

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    FloatColumn: TypeAlias = npt.NDArray[np.float64]
    IntColumn: TypeAlias = npt.NDArray[np.int64]

OWN, WAITING, DEVICE = "own", "waiting", "device"
"""A rank works itself; it waits for other ranks in a collective; its processor waits for its card."""
MAIN, THREAD, CARD = "main", "thread", "card"
"""The thread the steps run on, whose time adds up to the step; another thread beside it; the card."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What a rank did somewhere. ``where``: the user's own line or function, None where none was recorded.

    ``called``: what that line called (a library's function, empty = nothing), ``operation``: the innermost of it.
    """

    where: Where | None
    called: str
    operation: str
    phase: Phase
    kind: str = OWN
    on: str = MAIN


@dataclass(slots=True)
class RankTimes:
    """Samples of one rank, oldest first; every column has one value a sample.

    A sample is a step of a trace, or some seconds of a watched run (then means over its steps).
    """

    source: Source
    rank: int | None
    last_step: IntColumn
    """The number of the last step in the sample."""
    steps: FloatColumn
    """How many steps the sample holds: its weight."""
    step_s: FloatColumn
    """Seconds a step took."""
    spent: dict[Activity, FloatColumn] = field(default_factory=dict)
    """Seconds a step spent there."""
    longest_s: FloatColumn | None = None
    """The longest step of each sample, where that is known."""
    with_stacks: bool = True
    world_size: int | None = None
    told: Mapping[str, str] = field(default_factory=dict)
    """What the source says of versions and cards."""
    unread: tuple[Unread, ...] = ()

    def cut(self, keep: npt.NDArray[np.bool_]) -> RankTimes:
        """Only the samples marked in ``keep``."""
        return replace(
            self,
            last_step=self.last_step[keep],
            steps=self.steps[keep],
            step_s=self.step_s[keep],
            spent={activity: seconds[keep] for activity, seconds in self.spent.items()},
            longest_s=self.longest_s[keep] if self.longest_s is not None else None,
        )


MAX_BYTES = 256 << 20
MAX_RANKS = 1 << 14
MAX_ROWS = 1 << 20
_PHASES = {phase.value: phase for phase in Phase}


def read_rank_series(path: Path, *, source: Source) -> tuple[RankTimes, ...] | Unread:
    """Every rank of the series; of a job that was started again, its last attempt."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return Unread(source, f"is larger than {MAX_BYTES >> 20} MiB, too large for a series of ranks")
        lines = path.read_bytes().splitlines()
    except OSError as error:
        return Unread(source, f"cannot be read ({error.strerror or type(error).__name__})")
    sites: dict[int, Where | None] = {0: None}
    rows: dict[int, list[Line]] = defaultdict(list)
    bad = 0
    head = ""
    for line in islice(read_lines(lines), MAX_ROWS):
        if line is None:
            bad += 1
        elif line.schema:
            head = line.schema
        elif line.site >= 0:
            sites[line.site] = _where(line.place)
        elif _can_be(line) and (line.rank in rows or len(rows) < MAX_RANKS):
            rows[line.rank].append(line)
        else:
            bad += 1
    if head != SCHEMA:
        return Unread(source, f"is no series of ranks: its schema is {head[:60]!r}, not {SCHEMA!r}")
    unread = (Unread(source, f"{bad} of its lines are torn and were left out"),) if bad else ()
    found = (_rank(rank, rows[rank], sites, source, unread) for rank in sorted(rows))
    return tuple(times for times in found if len(times.step_s))


def _can_be(line: Line) -> bool:
    own = (line.rank, line.step, line.steps, line.looks, line.calls, line.calls_a_step)
    counts = (*own, *(count for *_, count in line.doing))
    times_s = (line.took_s, line.longest_s, line.for_s)
    return all(0 <= count < 1 << 53 for count in counts) and all(0 <= time_s < 1e9 for time_s in times_s)


def _where(place: tuple[str, int, str]) -> Where | None:
    file, line, function = place
    if not file or not f"{file}{function}".isprintable():
        return None
    return Where(file, line if line > 0 else None, function)


def _collectives_only_rows(rows: list[Line]) -> list[Line]:
    """Before the watcher knew how many collectives make a step it counted collectives only; now it is known."""
    a_step = next((row.calls_a_step for row in reversed(rows) if row.calls_a_step > 0), 0)
    first = next((at for at, row in enumerate(rows) if row.step > 0), len(rows))
    if not a_step or first == len(rows):
        return rows
    for before, row in pairwise(rows[:first]):
        steps = max(0, row.calls - before.calls) / a_step
        if before.calls > 0 and steps >= 1 and row.for_s > 0:
            row.steps, row.took_s, row.step = steps, row.for_s, row.calls // a_step
    return rows


def _whole_steps(rows: list[Line]) -> list[Line]:
    """A step longer than a row ends in a later one: what was seen meanwhile belongs to it."""
    kept: list[Line] = []
    waiting: list[Line] = []
    for row in rows:
        if row.steps > 0 and row.took_s > 0:
            row.looks += sum(one.looks for one in waiting)
            row.doing = tuple(seen for one in (*waiting, row) for seen in one.doing)
            waiting = []
            if row.looks > 0:
                kept.append(row)
        elif row.step > 0:
            waiting.append(row)
    return kept


def _rank(
    rank: int, rows: list[Line], sites: Mapping[int, Where | None], source: Source, unread: tuple[Unread, ...]
) -> RankTimes:
    import numpy as np

    last = max(row.attempt for row in rows)
    kept = _whole_steps(_collectives_only_rows([row for row in rows if row.attempt == last]))
    step_s = np.array([row.took_s / row.steps for row in kept])
    spent: dict[Activity, np.ndarray] = {}
    for at, row in enumerate(kept):
        for site, phase, waits, count in row.doing:
            activity = Activity(
                sites.get(site), "", "", _PHASES.get(phase, Phase.OTHER), WAITING if waits else OWN, MAIN
            )
            seconds = spent.setdefault(activity, np.zeros(len(kept)))
            seconds[at] += step_s[at] * min(1.0, count / row.looks)
    return RankTimes(
        source,
        rank,
        np.array([row.step for row in kept], np.int64),
        np.array([row.steps for row in kept], np.float64),
        step_s,
        spent,
        np.array([row.longest_s for row in kept]),
        unread=unread,
    )
