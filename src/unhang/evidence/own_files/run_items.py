"""What unhang itself wrote beside a job: the manifest of a bundle, the pace of a job that moves, calls it compared."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.evidence.items import Frame, Signature
from unhang.findings import Source


@dataclass(frozen=True, slots=True)
class PacePlace:
    """Where a rank stood in ``share`` of the samples. ``frames`` innermost first, perhaps only the innermost ones;
    ``phase`` is a word of ``findings.Phase``."""

    phase: str
    share: float
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class RankPace:
    """One rank of a job that moves. ``waits``: share of the samples in which it stood in communication."""

    rank: int
    steps: tuple[tuple[int, float], ...]
    """(step, mean seconds a step since the one before), oldest first."""
    waits: float
    places: tuple[PacePlace, ...]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a job that moves went, and what its ranks did in the last ``samples`` samples."""

    source: Source
    samples: int
    ranks: tuple[RankPace, ...]


@dataclass(frozen=True, slots=True)
class ComparedCall:
    """What one rank called; ``frames`` innermost first, empty where they were not recorded."""

    rank: int
    signature: Signature
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class CallComparison:
    """Calls that differ at one position of a group, and that the job survived; ``times``: at so many positions."""

    source: Source
    group: str
    position: int
    times: int
    calls: tuple[ComparedCall, ...]
    aligned: bool = True
    """The ranks' records overlap before it."""
