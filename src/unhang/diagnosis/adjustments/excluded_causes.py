"""Causes that what the log shows excludes, however often logs that look like this had them."""

from __future__ import annotations

from unhang.diagnosis.adjustments.severity_while_running import WORK_CAUSES
from unhang.facts.endings.crashes import first_timeouts
from unhang.facts.endings.ended_by_user import ended_by_user
from unhang.facts.endings.first_timeouts import TimeoutOrder
from unhang.facts.model import Facts
from unhang.facts.pace.step_slowdown import step_slowdown
from unhang.findings import Cause

_ENDS_A_PROCESS = frozenset((Cause.RANK_CRASHED, Cause.HOST_MEMORY))
_BELOW_THE_PROGRAM = frozenset(
    (
        Cause.DEVICE_MAPPING,
        Cause.GPU_HARDWARE,
        Cause.NETWORK_CONFIG,
        Cause.NETWORK_FAULT,
        Cause.P2P_BROKEN,
        Cause.VERSION_MISMATCH,
    )
)
"""By which a call hangs that every rank has joined."""

SLOWING_CAUSES = WORK_CAUSES | {Cause.NETWORK_FAULT}
"""What makes steps longer before it stops them; a call that somebody never makes stops a job at once."""


def excluded_causes(facts: Facts) -> frozenset[Cause]:
    """The causes that cannot be, by the order of time, by who had come, and by steps that took longer before."""
    grew = frozenset() if step_slowdown(facts) is None else frozenset(Cause) - SLOWING_CAUSES
    return _of_processes(facts) | _of_first_call(facts) | grew


def _of_processes(facts: Facts) -> frozenset[Cause]:
    """All that could be waited for were there when the first limit passed."""
    awaited = {rank for stall in facts.stalls for rank in stall.laggards} or set(range(facts.world_size or 0))
    timeouts = first_timeouts(facts)
    outlived = awaited and all(
        (known := facts.ranks.get(rank)) is not None
        and known.exit is not None
        and timeouts.classify_exit(known.exit, rank) is TimeoutOrder.AFTER
        for rank in awaited
    )
    return _ENDS_A_PROCESS if outlived else frozenset()


def _of_first_call(facts: Facts) -> frozenset[Cause]:
    """Somebody ended it in its first call: no rank had ended by itself, and no batch had been drawn."""
    ended = ended_by_user(facts)
    if ended is None or not ended.joined:
        return frozenset()
    if ended.all_joined:
        return frozenset(Cause) - _BELOW_THE_PROGRAM
    return _ENDS_A_PROCESS | {Cause.GPU_OOM, Cause.UNEVEN_DATA, Cause.TIMEOUT_TOO_SHORT}
