"""Groups all of whose members are in the same collective with the same shape, and none completed it."""

from __future__ import annotations

from collections.abc import Mapping

from unhang.facts.collective_operations import POINT_TO_POINT
from unhang.facts.model import AllJoinedStall, CallMismatch, Facts, GroupFacts
from unhang.facts.waiting.progress_from_stacks import waiting_activity

_ATTACH_COMMAND = "unhang attach"


def find_all_joined_stalls(
    groups: Mapping[str, GroupFacts], disagreements: tuple[CallMismatch, ...], world_size: int | None
) -> tuple[AllJoinedStall, ...]:
    """Groups of at least two members in which all members are pending at one position."""
    disputed = {d.group for d in disagreements}
    found = []
    for name, group in sorted(groups.items()):
        if name in disputed or len(group.members) < 2 or group.silent or _is_log_excerpt(group, world_size):
            continue
        pending = group.pending_calls
        if set(pending) != set(group.members) or len(pending) < (group.size or 0):
            continue  # who has not come yet is none of those that joined
        positions = {call.position for call in pending.values()}
        operations = {call.operation for call in pending.values()}
        if any(p.source_kind == "stack" for p in group.progress.values()):
            # Stacks know no positions: the same line may be another round of the loop.
            continue
        if len(positions) != 1 or None in positions or len(operations) != 1 or operations & POINT_TO_POINT:
            continue
        (position,) = positions
        call = pending[group.members[0]]
        assert position is not None
        found.append(AllJoinedStall(name, position, call.operation, call.elements, group.members, pending))
    return tuple(found)


def _is_log_excerpt(group: GroupFacts, world_size: int | None) -> bool:
    """Only log lines tell of it, and nothing how many members it has: who is waited for may be in no line shown."""
    if not any(p.source_kind == "log" for p in group.progress.values()):
        return False
    if world_size is None:
        return True
    return not group.members_known and _size_by_gather(group) != len(group.members)


def _size_by_gather(group: GroupFacts) -> int | None:
    """How many members a group has: an all-gather's output is its input times them."""
    sizes = {
        max(call.elements, call.output_elements) // min(call.elements, call.output_elements)
        for progress in group.progress.values()
        if (call := progress.pending) is not None
        and call.elements
        and call.output_elements
        and ("gather" in call.operation or "scatter" in call.operation)
    }
    return sizes.pop() if len(sizes) == 1 else None


def nobody_moved(facts: Facts) -> bool:
    """``unhang attach`` sampled every rank more than once, and saw none get on."""
    looked = [manifest for manifest in facts.manifests if manifest.taken_by == _ATTACH_COMMAND]
    return bool(looked) and not any(known.moving for known in facts.ranks.values() if known.alive)


def all_wait(facts: Facts) -> bool:
    """Every rank of the job was seen, and each that lives waits by its stack."""
    return not facts.ranks_missing and all(
        waiting_activity(known) is not None for known in facts.ranks.values() if known.alive
    )
