"""Time per step and activity of one rank: the form in which profiler traces and a watcher's samples are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from unhang.findings import Phase, Source, Unread, Where

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
        return RankTimes(
            self.source,
            self.rank,
            self.last_step[keep],
            self.steps[keep],
            self.step_s[keep],
            {activity: seconds[keep] for activity, seconds in self.spent.items()},
            self.longest_s[keep] if self.longest_s is not None else None,
            self.with_stacks,
            self.world_size,
            self.told,
            self.unread,
        )
