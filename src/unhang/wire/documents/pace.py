"""``machine/pace.json``: how fast a job that moves went, and what its ranks did meanwhile, as a watcher saw it."""

from __future__ import annotations

from typing import Annotated

import msgspec

from unhang.findings import Source, Unread
from unhang.wire.documents.document import Count, Document, Line, Name, Rank, Share, read_document

MAX_RANKS, MAX_STEPS, MAX_PLACES, MAX_FRAMES = 1_024, 4_096, 64, 64
StepTime = tuple[int, Annotated[float, msgspec.Meta(ge=0, lt=1e9)]]
Frames = Annotated[tuple[Line, ...], msgspec.Meta(max_length=MAX_FRAMES)]


class PacePlace(msgspec.Struct, frozen=True):
    """Where a rank stood in ``share`` of the samples. ``frames`` innermost first, perhaps only the innermost ones;
    ``phase`` is a word of ``findings.Phase``."""

    share: Share
    phase: Name = "other"
    frames: Frames = ()


class RankPace(msgspec.Struct, frozen=True):
    """One rank of a job that moves. ``waits``: share of the samples in which it stood in communication."""

    rank: Rank
    steps: Annotated[tuple[StepTime, ...], msgspec.Meta(max_length=MAX_STEPS)] = ()
    """(step, mean seconds a step since the one before), oldest first."""
    waits: Share = 0.0
    places: Annotated[tuple[PacePlace, ...], msgspec.Meta(max_length=MAX_PLACES)] = ()


class Pace(Document, frozen=True, kw_only=True, tag="unhang.pace/1"):
    """How fast a job that moves went, and what its ranks did in the last ``samples`` samples."""

    samples: Count = msgspec.field(name="looks", default=0)
    ranks: Annotated[tuple[RankPace, ...], msgspec.Meta(max_length=MAX_RANKS)] = ()

    def problem(self) -> str:
        """The first thing that cannot be right, or an empty text."""
        if len({rank.rank for rank in self.ranks}) != len(self.ranks):
            return "its ranks"
        steps = [[step for step, _ in rank.steps] for rank in self.ranks]
        return "" if all(numbers == sorted(numbers) for numbers in steps) else "steps out of order"


def read_pace(raw: bytes, *, source: Source) -> Pace | Unread:
    """What the watcher wrote, or why it cannot be believed."""
    return read_document(Pace, raw, "a record of a job's pace", source)
