"""Find the rank the others always wait for, in a job that moves."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from unhang.watch.detection import RankLook, has_rhythm

WINDOW = 60
"""Looks at all ranks: about 15 s."""
MOST_OWN, LEAST_OTHERS = 0.3, 0.6
"""Shares of the looks in which the straggler, and everybody else, stood in communication."""
PAUSE = 240
"""Looks before the question is asked again: about a minute."""


@dataclass(slots=True)
class StragglerWatch:
    """Sees every look of a job that moves."""

    _waited: deque[frozenset[int]] = field(default_factory=lambda: deque(maxlen=WINDOW))
    _ranks: tuple[int, ...] = ()
    _pause: int = 0

    def add(self, looks: Mapping[int, RankLook]) -> int | None:
        """The rank that never waits while all others mostly do, when it is time to look at it; else None."""
        ranks = tuple(sorted(looks))
        moves = len(ranks) > 1 and all(has_rhythm(look.view) and not look.view.closed for look in looks.values())
        if ranks != self._ranks or not moves:
            self._ranks = ranks
            self._waited.clear()
            return None
        self._waited.append(frozenset(rank for rank, look in looks.items() if _stands(look)))
        self._pause = max(0, self._pause - 1)
        if len(self._waited) < WINDOW or self._pause:
            return None
        counts = Counter(rank for waited in self._waited for rank in waited)
        own = [rank for rank in ranks if counts[rank] <= MOST_OWN * WINDOW]
        others = [rank for rank in ranks if counts[rank] >= LEAST_OTHERS * WINDOW]
        if len(own) != 1 or len(others) != len(ranks) - 1:
            return None
        self._pause = PAUSE
        return own[0]


def _stands(look: RankLook) -> bool:
    view = look.view
    return view.phase == "communication" or view.top.function in ("_engine_run_backward", "backward")
