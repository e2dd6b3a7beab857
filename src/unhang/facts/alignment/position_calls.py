"""What each rank called at one position, and from which call on ranks called something else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unhang.evidence.items import RecorderDump, RecorderEntries, Signature
from unhang.facts.alignment.group_table import recorded_call
from unhang.facts.model import GroupFacts, PendingCall
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.findings import Where
from unhang.knowledge.thresholds import whole_threshold


def calls_by_rank(group: GroupFacts, position: int, recordings: Mapping[int, RecorderDump]) -> dict[int, PendingCall]:
    """Each rank's call at ``position`` of ``group``, as its recording has it; ranks without one are left out."""
    calls = {}
    for rank, entries in group.entries.items():
        at = (entries.position == position).nonzero()[0]
        if len(at):
            calls[rank] = recorded_call(rank, group.name, entries, int(at[0]), recordings[rank].source)
    return calls


_FARTHEST = 1024


def first_extra_call(entries: Mapping[int, RecorderEntries], odd: Sequence[int], first: int) -> int:
    """The first of the extra calls that made the ``odd`` ranks disagree at ``first``; ``first`` where there are none.

    Extra calls come from another line than the others' at their positions; after them the odd ranks repeat what the
    others called from there on.
    """
    mine = next((entries[rank] for rank in odd if rank in entries), None)
    theirs = next((e for rank, e in sorted(entries.items()) if rank not in odd), None)
    if mine is None or theirs is None:
        return first
    last = first - 1
    while last > first - _FARTHEST and _site(mine, last) is not None and _site(mine, last) == _site(theirs, last):
        last -= 1
    start = last
    while start > first - _FARTHEST and _is_other_call_site(mine, theirs, start):
        start -= 1
    start += 1
    if start > last:
        return first
    repeated = all(_called(mine, last + 1 + n) == _called(theirs, start + n) for n in range(first - last))
    return start if repeated else first


MIN_ALIKE = whole_threshold("position_calls.min_alike")
_MAX_SHIFT = 8


def sequence_shift(entries: Mapping[int, RecorderEntries], odd: Sequence[int], first: int) -> int:
    """How many calls the ``odd`` ranks left out at ``first`` (negative: made besides), by what they called next; 0
    where too little follows, or both would fit."""
    mine = next((entries[rank] for rank in odd if rank in entries), None)
    theirs = next((e for rank, e in sorted(entries.items()) if rank not in odd), None)
    if mine is None or theirs is None:
        return 0
    alike = {
        shift: _alike(mine, first + max(-shift, 0), theirs, first + max(shift, 0))
        for shift in range(-_MAX_SHIFT, _MAX_SHIFT + 1)
        if shift
    }
    best = max(alike.values())
    fitting = [shift for shift, count in alike.items() if count == best]
    return fitting[0] if best >= MIN_ALIKE and len(fitting) == 1 else 0


def _alike(mine: RecorderEntries, here: int, theirs: RecorderEntries, there: int) -> int:
    """So many calls one after the other are the same, from these positions on."""
    count = 0
    while (call := _called(mine, here + count)) is not None and call == _called(theirs, there + count):
        count += 1
    return count


def was_called_before(entries: RecorderEntries, position: int) -> bool:
    """Whether the call at ``position`` is one that the rank had made before."""
    last = _called(entries, position)
    before = entries.signature[entries.position < position]
    return last is not None and any(entries.signatures[int(each)] == last[0] for each in set(before.tolist()))


def _is_other_call_site(mine: RecorderEntries, theirs: RecorderEntries, position: int) -> bool:
    sites = _site(mine, position), _site(theirs, position)
    return None not in sites and sites[0] != sites[1]


def _called(entries: RecorderEntries, position: int) -> tuple[Signature, Where | None] | None:
    index = int(entries.position.searchsorted(position))
    if index >= len(entries) or int(entries.position[index]) != position:
        return None
    return entries.signatures[int(entries.signature[index])], _site(entries, position)


def _site(entries: RecorderEntries, position: int) -> Where | None:
    index = int(entries.position.searchsorted(position))
    if index >= len(entries) or int(entries.position[index]) != position or int(entries.stack[index]) < 0:
        return None
    return first_user_frame(entries.stacks[int(entries.stack[index])])
