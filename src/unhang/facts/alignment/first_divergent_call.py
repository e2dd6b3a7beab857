"""Where ranks slipped against each other before their calls differed in kind.

Calls of the same kind pair up although they come from other lines: an extra forward of a sharded model on one rank
pairs with the others' next forward, and only the first other operation shows it. The place to fix is the first call
of that stretch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unhang.evidence.items import RecorderEntries, Signature
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.findings import Where

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
