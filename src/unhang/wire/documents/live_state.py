"""``live.json``: the run as it is now, or as it was last, for viewers. Columns: one entry a rank in each."""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from unhang.wire.record_views import PHASES

SCHEMA = "unhang.live/1"
LIVE_FILE_NAME, REQUEST_FILE = "live.json", "live.wanted"
MAX_GROUPS = 64
"""Groups shown, those with the most members first; jobs with thousands of pairs are not listed whole."""


class RankActivity(enum.Enum):
    """What one rank seems to be doing, from its record and ``/proc``."""

    WAITING = "waiting"
    """Inside, or behind, work that does not finish."""
    IDLE = "idle"
    """Its stack stands and no processor time is used."""
    BUSY = "busy"
    SILENT = "silent"
    """Alive, not stopped, and its record does not move."""
    STOPPED = "stopped"
    DEAD = "dead"
    ABSENT = "absent"
    """It exists and has not come to init_process_group."""
    OVER = "over"
    """It tore its group down, or its interpreter shuts down in order."""

    @property
    def frozen(self) -> bool:
        """It will not go on by itself."""
        return self in (RankActivity.STOPPED, RankActivity.DEAD, RankActivity.SILENT)


STATES = tuple(doing.value for doing in RankActivity)


class LiveRun(msgspec.Struct, frozen=True):
    """What was started. ``nodes``: hosts, by the index that ``RankColumns.node`` uses."""

    command: list[str]
    folder: str
    started_s: float
    world_size: int | None
    nodes: list[str]
    attempt: int = 0


class RankColumns(msgspec.Struct, frozen=True):
    """One entry a rank, in the order of ``rank``. Times are seconds; -1 where there is none.

    ``state`` is an index into :data:`STATES`, ``phase`` into ``PHASES``; ``node``, ``label`` and ``place`` into the
    lists of the snapshot (-1: none). ``still_s``: since when the stack of the thread that issues collectives stands;
    ``waits_s``: since when it waits for others; ``beat_s``: age of what its record says.
    """

    rank: list[int]
    node: list[int]
    state: list[int]
    phase: list[int]
    label: list[int]
    place: list[int]
    step: list[int]
    step_s: list[float]
    still_s: list[float]
    waits_s: list[float]
    beat_s: list[float]


class GroupColumns(msgspec.Struct, frozen=True):
    """How far the ranks of one group came: positions by rank."""

    name: str
    backend: str
    size: int
    rank: list[int]
    enqueued: list[int]
    completed: list[int]


class LiveWait(msgspec.Struct, frozen=True):
    """Who waits for whom now. ``killed_in_s``: until the limit of the wait passes, None where that is not known."""

    waiters: list[int]
    laggards: list[int]
    waited_s: float
    urgent: bool
    killed_in_s: float | None = None


class LiveVerdict(msgspec.Struct, frozen=True):
    """The headline of a verdict that was said. ``parts``: the sentence as ``report/text_serialization.py`` carries it,
    None where an older unhang wrote it."""

    level: str
    status: str
    cause: str
    certainty: str
    ranks: list[int]
    where: str
    sentence: str
    parts: dict[str, Any] | None = None


class LiveTotals(msgspec.Struct, frozen=True):
    """The run so far. ``by_phase``: seconds and times of marked phases that ended."""

    steps: int
    step_s: float | None
    slowest: int | None
    by_phase: dict[str, tuple[float, int]]
    findings: list[str]


class LiveState(msgspec.Struct, frozen=True):
    """One snapshot. ``at_s`` is a clock time of the machine that wrote it; ``ended``: the command is over."""

    schema: str
    at_s: float
    ended: bool
    run: LiveRun
    ranks: RankColumns
    places: list[str]
    labels: list[str]
    groups: list[GroupColumns]
    standing: LiveWait | None
    verdict: LiveVerdict | None
    totals: LiveTotals

    def is_consistent(self) -> bool:
        """It is of our version, the columns are as long as each other, and every index leads somewhere."""
        if self.schema != SCHEMA:
            return False
        ranks = self.ranks
        within = (
            (ranks.node, len(self.run.nodes)),
            (ranks.state, len(STATES)),
            (ranks.phase, len(PHASES)),
            (ranks.label, len(self.labels)),
            (ranks.place, len(self.places)),
        )
        alike = {len(getattr(ranks, column)) for column in RankColumns.__struct_fields__} == {len(ranks.rank)}
        pointing = all(-1 <= number < length for column, length in within for number in column)
        known = set(ranks.rank)
        groups = all(
            len(group.rank) == len(group.enqueued) == len(group.completed) and known.issuperset(group.rank)
            for group in self.groups
        )
        return alike and pointing and groups and min((*ranks.state, *ranks.phase), default=0) >= 0
