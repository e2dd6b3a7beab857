"""Find the rank the others always wait for, in a job that moves, and since when its steps grow slower."""

from __future__ import annotations

import statistics
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unhang.watch.detection import RankLook, has_rhythm
from unhang.watch.pace_record import PaceRecord, Seen, seen_in

if TYPE_CHECKING:
    from unhang.facts.slow_pace import SlowPace

ASK_EVERY = 20
"""Looks at all ranks: about 5 s."""
PAUSE = 240
"""Looks before the question is asked again: about a minute, and longer every time for the same slowness."""
LONG_RUN, LONG_TIMES = 5, 5
"""Looks without any progress: so many, or so many times the usual, are an interruption (a save), and no pace."""


@dataclass(slots=True)
class StragglerWatch:
    """Sees every look of a job that moves."""

    record: PaceRecord = field(default_factory=PaceRecord)
    _run: list[dict[int, Seen]] = field(default_factory=list)
    _usual: deque[int] = field(default_factory=lambda: deque(maxlen=64))
    _progress: tuple[int, ...] = ()
    _job: tuple[tuple[int, int], ...] = ()
    _taken: int = 0
    _pauses: dict[tuple[int, bool], int] = field(default_factory=dict)
    _asked: Counter[tuple[int, bool]] = field(default_factory=Counter)

    def add(self, looks: Mapping[int, RankLook]) -> int | None:
        """The rank that holds the others up, when it is time to look at it; else None."""
        job = tuple((rank, look.view.identity.pid) for rank, look in sorted(looks.items()))
        if job != self._job:
            self._job, self.record = job, PaceRecord()
            self._run.clear()
        moves = len(looks) > 1 and all(has_rhythm(look.view) and not look.view.closed for look in looks.values())
        if not moves:
            self._run.clear()
            return None
        self.record.note_steps(looks)
        self._take(looks)
        self._pauses = {same: left - 1 for same, left in self._pauses.items() if left > 1}
        if self._taken < ASK_EVERY:
            return None
        self._taken = 0
        slow = self.slow()
        same = (slow.rank, slow.change is not None) if slow is not None else None
        if slow is None or same is None or same in self._pauses:
            return None
        self._pauses[same] = PAUSE << min(self._asked[same], 10)
        self._asked[same] += 1
        return slow.rank

    def slow(self) -> SlowPace | None:
        """Who holds the others up, as far as was seen."""
        if not self.record.is_uneven():
            return None
        from unhang.facts.slow_pace import slow_pace

        pace = self.record.pace()
        return slow_pace(pace) if pace is not None else None

    def _take(self, looks: Mapping[int, RankLook]) -> None:
        """Looks between two moves of the job count when the job moves again, and did not pause."""
        progress = tuple(max((g.enqueued for g in look.view.groups), default=0) for look in looks.values())
        longest = max(LONG_RUN, LONG_TIMES * (statistics.median(self._usual) if self._usual else 0))
        if progress != self._progress:
            self._progress = progress
            self._count(longest)
        if len(self._run) <= longest:  # one more than counts: then none does
            self._run.append({rank: seen_in(look.view, waits=_stands(look)) for rank, look in looks.items()})

    def _count(self, longest: float) -> None:
        if self._run:
            self._usual.append(len(self._run))
        if len(self._run) <= longest:
            for seen in self._run:
                self.record.add(seen)
            self._taken += len(self._run)
        self._run.clear()


def _stands(look: RankLook) -> bool:
    view = look.view
    return view.phase == "communication" or view.top.function in ("_engine_run_backward", "backward")
