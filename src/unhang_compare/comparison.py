"""What a comparison comes down to: plain values that text, Markdown and JSON are written from."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.findings import NotChecked, Phase, Unread, Where
from unhang.sentences import Text
from unhang_compare.noise import StepTimes, TimeDifference

RUNS, TRACES, SPANS, RANKS = "runs", "traces", "spans", "ranks"
GREW, SHRANK, SAME, UNDECIDED = "grew", "shrank", "same", "not-told"


@dataclass(frozen=True, slots=True)
class StepPart:
    """Something a step does, and how much more (or less) of it there is. ``ranks``: on which that is more than noise.

    ``inside``: what of it changed most, where ``called`` holds several things. The times are those of the rank on which
    it changed most.
    """

    where: Where | None
    called: str
    inside: str
    phase: Phase
    kind: str
    on: str
    ranks: tuple[int, ...]
    difference: TimeDifference


@dataclass(frozen=True, slots=True)
class RankPair:
    """One rank (None: several together, or not known) before and after."""

    rank: int | None
    before: StepTimes
    after: StepTimes
    median: TimeDifference
    mean: TimeDifference
    apart: bool = False
    """Every step of one side is longer than every step of the other."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something that is not as it was. ``kind``: ``version``, ``environment``, ``card``, ``node``, ``ranks``,
    ``command``, ``configuration``, ``program``; ``None`` where it was not there. ``matters``: 0 to 100, for stalls.
    """

    kind: str
    name: str
    before: str | None
    after: str | None
    matters: int
    because: Text | None = None
    known_bad: bool = False


@dataclass(frozen=True, slots=True)
class SideSummary:
    """One side as the user sees it."""

    name: str
    ranks: tuple[int, ...]
    steps: StepTimes | None


@dataclass(frozen=True, slots=True)
class RunComparison:
    """The answer. ``grew`` and ``shrank``: parts of the step, those that changed most first."""

    kind: str
    answer: str
    summary: Text
    because: tuple[Text, ...]
    before: SideSummary
    after: SideSummary
    pairs: tuple[RankPair, ...] = ()
    grew: tuple[StepPart, ...] = ()
    shrank: tuple[StepPart, ...] = ()
    changes: tuple[Change, ...] = ()
    not_compared: tuple[NotChecked, ...] = ()
    unread: tuple[Unread, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 nothing grew, 1 something did or a version is known to be bad, 3 it cannot be told."""
        if self.answer == GREW or any(change.known_bad for change in self.changes):
            return 1
        return 3 if self.answer == UNDECIDED else 0
