"""``summary-N.json``: what the watcher needs to know of a verdict; free of everything that takes long to import."""

from __future__ import annotations

import enum
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from unhang.wire.documents.document import DECODE_ERRORS

HEALTHY = "healthy"
"""The status of a verdict that shows every rank to be well."""


class VerdictLevel(str, enum.Enum):
    """What the watcher does with a verdict: nothing; go on waiting; bear it for a while, then say it (slow); say it and
    act on it (stall); say how the job ended (crash). What is wrong is its status."""

    NOTHING = "nothing"
    WAITING = "waiting"
    SLOW = "slow"
    STALL = "stall"
    CRASH = "crash"


@dataclass(frozen=True, slots=True)
class VerdictSummary:
    """What the watcher needs to know of a verdict. Times are seconds since the epoch."""

    number: int
    level: str
    status: str
    cause: str
    certainty: str
    ranks: tuple[int, ...]
    where: str
    sentence: str
    stalled_since_s: float | None
    limit_at_s: float | None
    """When the first limit passes: torch's, after which it ends the job, or that of a guard."""
    moving: bool
    """The laggards get on, or may be on their way: ``--on-hang abort`` leaves them until the user's bound."""
    settled: bool
    """Certain, and it names the waiters' line too."""
    laggard_works: bool
    """The cause is one that would end by itself."""
    needs_lines: bool
    """Ranks called different collectives, and no dump says on which lines."""
    noticed_after_s: float | None = None
    """So long after the stall began it was first spoken of."""
    gives_up: str = ""
    """The guard whose limit that is; empty: torch's."""
    sentence_parts: dict[str, Any] | None = field(default=None, compare=False)
    """``sentence`` as ``report/text_serialization.py`` carries it, for readers of another language."""

    @property
    def explains_the_end(self) -> bool:
        """Should the job fail now, this is why. Work runs into a limit, and a doubt may be ended by what a log says."""
        return not (self.laggard_works or self.cause == "unknown" or self.certainty == "possible")

    @property
    def identity_key(self) -> tuple[object, ...]:
        """Equal for verdicts that say the same."""
        return (self.status, *self.blame_key)

    def changes(self, before: VerdictSummary) -> bool:
        """Whether this verdict says something else than ``before``; where a rank that works stands may change."""
        if self.laggard_works and before.laggard_works:
            return (self.status, self.cause, self.ranks) != (before.status, before.cause, before.ranks)
        return self.identity_key != before.identity_key

    @property
    def blame_key(self) -> tuple[object, ...]:
        """What is wrong with whom, and where."""
        return (self.cause, self.ranks, self.where)


def read_summary(path: Path) -> VerdictSummary | None:
    """The summary in ``path``; None when it is not there or torn."""
    with suppress(OSError, *DECODE_ERRORS):
        return msgspec.json.decode(path.read_bytes(), type=VerdictSummary)
    return None
