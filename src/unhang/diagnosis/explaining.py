"""What explains what: a stronger finding takes what it explains as its consequence. The one place that knows."""

from __future__ import annotations

from unhang.findings import Cause, Certainty, Finding, Severity
from unhang.knowledge.thresholds import whole_threshold

_ENDS = frozenset((Cause.RANK_CRASHED, Cause.RANK_FROZEN))
_WAITS = frozenset((Cause.UNEVEN_DATA, Cause.SINGLE_RANK_WORK, Cause.TIMEOUT_TOO_SHORT, Cause.SLOW_RANK))
_LOST = frozenset((Cause.NETWORK_FAULT, Cause.NETWORK_CONFIG))
EXPLAINS: dict[Cause, frozenset[Cause]] = {
    Cause.GPU_HARDWARE: _ENDS | _WAITS | _LOST | {Cause.GPU_OOM, Cause.P2P_BROKEN},
    Cause.GPU_OOM: _ENDS | _WAITS | _LOST,
    Cause.HOST_MEMORY: _ENDS | _WAITS | _LOST | {Cause.GPU_OOM, Cause.SLOW_DATA_LOADING},
    Cause.RANK_CRASHED: _WAITS | _LOST | {Cause.RENDEZVOUS},
    Cause.RANK_FROZEN: _WAITS,
    Cause.TIMEOUT_TOO_SHORT: frozenset((Cause.SINGLE_RANK_WORK, Cause.SLOW_RANK)),
}
"""By cause: what follows from it for the same ranks. A process that died answers nobody and does no step; one whose
memory or card failed dies. Work that a limit was too short for is that limit's cause, not the stall's."""
DIED_OF = frozenset(Cause) - {Cause.RANK_CRASHED, Cause.UNKNOWN, Cause.RANK_FROZEN}
"""Causes that an exception can name: a crash that rests on the same lines is what they led to."""
ENDED_FROM_OUTSIDE = "rank_crashed_from_outside"
"""Somebody or a scheduler ended the job: what was wrong with it before is why, or at least what to look at."""
_NEAR_LINES = whole_threshold("explaining.near_lines")


def explains(root: Finding, other: Finding) -> bool:
    """``other`` tells what follows from ``root``, which is *likely* at least."""
    if root.certainty is Certainty.POSSIBLE or root.severity is Severity.NOTE:
        return False
    if died_of(root, other) or (other.rule == ENDED_FROM_OUTSIDE and root.cause in DIED_OF):
        return True
    alike = root.cause is other.cause or other.cause in EXPLAINS.get(root.cause, ())
    return alike and bool(other.ranks) and set(other.ranks) <= set(root.ranks)


def died_of(root: Finding, crash: Finding) -> bool:
    """``crash`` is the end of a process whose reason ``root`` names."""
    sure = root.certainty is not Certainty.POSSIBLE and root.severity is not Severity.NOTE
    return crash.cause is Cause.RANK_CRASHED and root.cause in DIED_OF and sure and _of_the_same_lines(root, crash)


def _of_the_same_lines(root: Finding, crash: Finding) -> bool:
    """The crash was told by the very lines, or by those right beside them, that name its reason."""
    told = [(item.source.path, item.source.line) for item in crash.evidence if item.source.line is not None]
    return any(
        item.source.path == path and item.source.line is not None and abs(item.source.line - (line or 0)) <= _NEAR_LINES
        for item in root.evidence
        for path, line in told
    )
