"""Positions at which ranks of one group called different collectives.

Ranks are aligned by position in the group, never by list index or record id: rings wrap at different times, records
are skewed, and ranks run ahead. Only a disagreement that reaches the stall counts; one that the job survived is not
its cause.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from unhang.evidence.items import RecorderDump, Signature
from unhang.facts.alignment.position_calls import (
    calls_by_rank,
    differing_positions,
    find_departure,
    first_extra_call,
)
from unhang.facts.collective_operations import POINT_TO_POINT, is_barrier, minority, signature_differences
from unhang.facts.model import CallMismatch, GroupFacts, PendingCall
from unhang.knowledge.thresholds import threshold

if TYPE_CHECKING:
    from unhang.facts.alignment.call_table import CallTable

# A stretch of disagreement may hold positions that agree by chance (the same all-reduce one step apart).
DENSITY = threshold("mismatched_calls.density")


def find_mismatches(
    groups: Mapping[str, GroupFacts], recordings: Mapping[int, RecorderDump], *, failed: bool = False
) -> tuple[CallMismatch, ...]:
    """The first position of the disagreement in each stalled group that has one.

    ``failed``: processes of the job have failed. Gloo aborts a size mismatch within milliseconds and counts it as
    finished, so that then the last call of each rank is compared although nothing is pending.
    """
    found = []
    for _, group in sorted(groups.items()):
        mismatch = _first_mismatch(group, recordings, failed=failed) or _mismatch_of_pending(group)
        if mismatch is not None:
            found.append(mismatch)
    return tuple(found)


def _first_mismatch(group: GroupFacts, recordings: Mapping[int, RecorderDump], *, failed: bool) -> CallMismatch | None:
    pending = [p.pending.position for p in group.progress.values() if p.pending and p.pending.position is not None]
    if failed and not pending:
        pending = [int(entries.position[-1]) for entries in group.entries.values()]
    if not pending or len(group.entries) < 2:
        return None
    from unhang.facts.alignment.call_table import CallTable

    table = CallTable(group)
    stall = min(pending)
    wrong = {p: kinds for p in table.shared_positions() if (kinds := table.differences_at(p))}
    if not wrong:
        return None
    first = _start_of_mismatch(sorted(wrong), stall, table)
    if first is None:
        return None
    odd, slip = _outliers_and_start(group, table, first)
    return CallMismatch(
        group=group.name,
        position=slip,
        calls=table.calls_at(slip),
        pending=calls_by_rank(group, slip, recordings),
        differs_in=wrong.get(slip, ("call-site",)),
        outliers=odd,
        records_align=table.all_recorded_before(slip),
    )


def _outliers_and_start(group: GroupFacts, table: CallTable, first: int) -> tuple[tuple[int, ...], int]:
    """(who is odd, from which position on): who left the order of calls that all had kept, else the minority; on a tie
    the one side whose earlier extra calls show it."""
    calls = table.calls_at(first)
    starts = {ranks: first_extra_call(group.entries, ranks, first) for ranks in calls.values() if len(calls) == 2}
    slipped = [ranks for ranks, start in starts.items() if start < first]
    start = min(starts.values(), default=first)
    apart = _start_of_mismatch(differing_positions(group.entries, calls.values(), first), first, table)
    for at in sorted({min(apart or first, start), start}):
        left = find_departure(group.entries, at)
        if left is not None:
            return left.ranks, at
    odd = minority(calls) or (slipped[0] if len(slipped) == 1 else ())
    return odd, start if odd else first


def _mismatch_of_pending(group: GroupFacts) -> CallMismatch | None:
    """Without records (logs only): ranks that are pending at one position in calls that do not fit together."""
    if group.entries or group.p2p:
        return None
    at: dict[int, dict[int, PendingCall]] = defaultdict(dict)
    for rank, progress in group.progress.items():
        call = progress.pending
        if call is not None and call.position is not None and call.operation not in POINT_TO_POINT:
            at[call.position][rank] = call
    for position, pending in sorted(at.items()):
        calls: dict[Signature, list[int]] = defaultdict(list)
        for rank, call in sorted(pending.items()):
            calls[call.signature or Signature(call.operation, None, (), (), (), ())].append(rank)
        kinds = _printed_differences(list(calls)) if len(calls) > 1 else ()
        from_stacks = any(p.source_kind == "stack" for p in group.progress.values())
        if not kinds and from_stacks and len({call.where for call in pending.values()}) > 1:
            kinds = ("call-site",)
        if kinds:
            by_call = {signature: tuple(ranks) for signature, ranks in calls.items()}
            odd = minority(by_call) or _outliers_by_call_site(pending) or _in_one_number(by_call)
            return CallMismatch(group.name, position, by_call, pending, kinds, odd, records_align=not from_stacks)
    return None


def _printed_differences(calls: list[Signature]) -> tuple[str, ...]:
    """As :func:`signature_differences`; a line without sizes (old releases, torn lines) does not disagree in size."""
    kinds = signature_differences(calls)
    if kinds != ("size",):
        return kinds
    sized = [call for call in calls if call.input_sizes or call.output_sizes]
    if len({is_barrier(call.operation, call.input_elements) for call in sized}) > 1:
        return ("operation",)  # one number is no gradient of another length
    return signature_differences(sized) if len(sized) > 1 else ()


def _outliers_by_call_site(pending: Mapping[int, PendingCall]) -> tuple[int, ...]:
    """Ranks whose call site is not that of the majority; empty on a tie."""
    sites: dict[object, list[int]] = defaultdict(list)
    for rank, call in pending.items():
        sites[call.where].append(rank)
    return minority(sites)


def _in_one_number(calls: Mapping[Signature, tuple[int, ...]]) -> tuple[int, ...]:
    """Of two sides, the one that is in an all-reduce of one number where the other reduces more: a flag or a loss."""
    alone = [ranks for call, ranks in calls.items() if is_barrier(call.operation, call.input_elements)]
    reduce_all = {call.operation for call in calls} == {"all_reduce"}
    return alone[0] if len(calls) == 2 and len(alone) == 1 and reduce_all else ()


def _start_of_mismatch(wrong: list[int], stall: int, table: CallTable) -> int | None:
    """The first position of the stretch of disagreement that reaches the stall; None when it ended before."""
    near = [p for p in wrong if p >= stall]
    if not near:
        return None
    first = near[0]
    between = table.count_between(stall, first)
    if first > stall and between > 1 / DENSITY:
        # Agreed at the stall and for a while after it: the disagreement lies in what was only enqueued.
        return first if first - stall <= 1 else None
    before = [p for p in wrong if p < first]
    while before:
        candidate = before.pop()
        count = len(wrong) - len(near) + 1 - len(before)
        share = count / max(table.count_between(candidate, near[0]) + 1, 1)
        if share < DENSITY:
            break
        first = candidate
    return first
