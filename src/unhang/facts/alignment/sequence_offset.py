"""Ranks whose own numbering of calls is shifted: one has passed a call that cannot end without the other."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.facts.collective_operations import operation_row
from unhang.facts.logs.progress_from_logs import FAR_APART
from unhang.facts.logs.waits_in_logs import LoggedWaits, LogWait, logged_waits
from unhang.facts.model import Facts


@dataclass(frozen=True, slots=True)
class SequenceOffset:
    """``behind`` waits at a position ``ahead`` has already passed in the same kind of call. ``by``: how many positions
    apart."""

    behind: tuple[LogWait, ...]
    ahead: tuple[LogWait, ...]
    by: int


def minority_and_majority(shift: SequenceOffset) -> tuple[tuple[LogWait, ...], tuple[LogWait, ...]]:
    """(the few, the many); who is behind where both are as many: calls are off by one side, not by most ranks."""
    return (shift.ahead, shift.behind) if len(shift.ahead) < len(shift.behind) else (shift.behind, shift.ahead)


def find_sequence_offset(facts: Facts) -> SequenceOffset | None:
    """The shift that logs show; None when all wait at one position or the call can end without the others."""
    logged = logged_waits(facts)
    if logged is None:
        return None
    for group in sorted({w.group for w in logged.waits}):
        found = _in_group(logged, group)
        if found is not None:
            return found
    return None


def _in_group(logged: LoggedWaits, group: str) -> SequenceOffset | None:
    waits = [w for w in logged.waits if w.group == group and w.position is not None and w.rank is not None]
    positions = sorted({w.position for w in waits if w.position is not None})
    if len(positions) != 2 or positions[1] - positions[0] > FAR_APART:
        return None
    behind = tuple(w for w in waits if w.position == positions[0])
    ahead = tuple(w for w in waits if w.position == positions[1])
    if not all(operation_row(w.operation).whole for w in behind):
        return None
    return SequenceOffset(behind, ahead, positions[1] - positions[0])
