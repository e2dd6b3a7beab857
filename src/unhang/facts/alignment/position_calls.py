"""What the ranks of one group called at one position, and who of them is outside the majority."""

from __future__ import annotations

from collections.abc import Mapping

from unhang.evidence.items import RecorderDump, Signature
from unhang.facts.alignment.entry_slices import select_rows
from unhang.facts.alignment.group_table import pending_from_row
from unhang.facts.model import GroupFacts, PendingCall


def minority(calls: Mapping[Signature, tuple[int, ...]]) -> tuple[int, ...]:
    """The ranks outside the majority; empty on a tie, which is declared and not decided."""
    sizes = sorted((len(ranks) for ranks in calls.values()), reverse=True)
    if len(sizes) < 2 or sizes[0] == sizes[1]:
        return ()
    majority = max(calls.values(), key=len)
    return tuple(sorted(rank for ranks in calls.values() if ranks is not majority for rank in ranks))


def calls_by_rank(group: GroupFacts, position: int, recordings: Mapping[int, RecorderDump]) -> dict[int, PendingCall]:
    """Each rank's call at ``position`` of ``group``, as its recording has it; ranks without one are left out."""
    calls = {}
    for rank, entries in group.entries.items():
        at = (entries.position == position).nonzero()[0]
        if len(at):
            calls[rank] = pending_from_row(rank, group.name, select_rows(entries, at[:1]), recordings[rank].source)
    return calls
