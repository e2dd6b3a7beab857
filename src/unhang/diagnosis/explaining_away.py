"""What explains what: a stronger finding takes what it explains as its consequence. The one place that knows."""

from __future__ import annotations

from collections.abc import Callable

from unhang.findings import Cause, Certainty, Ending, Finding, Grade, Severity

_ENDS = frozenset((Cause.RANK_CRASHED, Cause.RANK_FROZEN))
_ELSEWHERE = (Cause.RANK_CONDITIONAL_COLLECTIVE, Cause.UNEVEN_DATA, Cause.SINGLE_RANK_WORK)
_WAITS = frozenset((*_ELSEWHERE, Cause.TIMEOUT_TOO_SHORT, Cause.SLOW_RANK))
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
_REASONS = frozenset(Cause) - {Cause.RANK_CRASHED, Cause.UNKNOWN, Cause.RANK_FROZEN}
"""Causes that an error can name: a crash whose own error names one is what any of them led to."""
DIED_OF = _REASONS - _WAITS
"""Those that end a process: a crash that rests on the same lines is what they led to."""


def _of_one_group(root: Finding, other: Finding) -> bool:
    return root.group == other.group


def _among_them(root: Finding, other: Finding) -> bool:
    return set(root.ranks) <= set(other.ranks)


def _complains(_: Finding, other: Finding) -> bool:
    """It is not only suspected, and not of the kernel's own knowledge: no process takes a link down."""
    return bool(other.evidence) and other.grade is not Grade.KERNEL


_DEATHS = (Cause.RANK_CRASHED, Cause.GPU_OOM, Cause.HOST_MEMORY, Cause.GPU_HARDWARE, Cause.DEVICE_MAPPING)
FOLLOWS: dict[tuple[Cause, Cause], Callable[[Finding, Finding], bool]] = {
    **{(ended, lost): _complains for ended in _DEATHS for lost in _LOST},
    (Cause.RANK_CONDITIONAL_COLLECTIVE, Cause.COLLECTIVE_MISMATCH): _of_one_group,
    (Cause.UNEVEN_DATA, Cause.COLLECTIVE_MISMATCH): _of_one_group,
    (Cause.RANK_CONDITIONAL_COLLECTIVE, Cause.DEADLOCK_ORDER): _among_them,
}
"""By (cause, what follows from it): when it does, whatever their ranks. Who lost a partner complains of the network. A
rank that took another way through the program is in other calls of that group than the others, and closes a circle
where it waits for those who wait for it."""


def explains(root: Finding, other: Finding) -> bool:
    """``other`` tells what follows from ``root``, which is *likely* at least."""
    if root.certainty is Certainty.POSSIBLE or root.severity is Severity.NOTE:
        return False
    if leads_despite_certainty(root, other) or (other.ending is Ending.FROM_OUTSIDE and root.cause in DIED_OF):
        return True
    if root.ending is Ending.NAMED and other.cause in _REASONS:
        return False
    alike = root.cause is other.cause or other.cause in EXPLAINS.get(root.cause, ())
    return alike and bool(other.ranks) and set(other.ranks) <= set(root.ranks)


def leads_despite_certainty(root: Finding, other: Finding) -> bool:
    """``root`` is why ``other`` is so, also where that is the more certain of the two: a process ended for the reason
    that ``root`` names, its partners lost their connections, or ranks that it took elsewhere are in other calls."""
    if root.severity is not other.severity:
        return False
    if other.ending is Ending.NAMED:
        return root.cause in _REASONS
    if root.certainty is Certainty.POSSIBLE:
        return False
    follows = FOLLOWS.get((root.cause, other.cause))
    if follows is not None:
        return follows(root, other)
    return other.cause is Cause.RANK_CRASHED and root.cause in DIED_OF and _of_the_same_lines(root, other)


def _of_the_same_lines(root: Finding, crash: Finding) -> bool:
    """The crash was told by a line that also names its reason."""
    told = {(item.source.path, item.source.line) for item in crash.evidence if item.source.line is not None}
    return any((item.source.path, item.source.line) in told for item in root.evidence)
