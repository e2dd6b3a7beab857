"""What each rank called at one position, and from which call on ranks called something else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unhang.evidence.items import RecorderDump, RecorderEntries, Signature
from unhang.facts.alignment.group_table import recorded_call
from unhang.facts.model import GroupFacts, PendingCall
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.findings import Where


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
