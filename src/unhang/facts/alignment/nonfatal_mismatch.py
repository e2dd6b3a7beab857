"""Positions at which ranks called different collectives and the job went on: nothing stops, results are wrong.

The library pairs calls by order and moves bytes: two dtypes of the same width, or a broadcast whose root sends less
than the others expect, finish without a word.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from unhang.evidence.items import STATE_COMPLETED, RecorderDump, RecorderEntries, Signature, frames_of
from unhang.facts.alignment.entry_slices import select_rows
from unhang.facts.alignment.group_table import signed_call
from unhang.facts.alignment.position_calls import calls_by_rank
from unhang.facts.collective_operations import may_be_recorded_as, minority, signature_differences
from unhang.facts.model import CallMismatch, GroupFacts, PendingCall
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.findings import Evidence
from unhang.knowledge.thresholds import whole_threshold

if TYPE_CHECKING:
    from unhang.wire.documents.call_comparison import CallComparison, ComparedCall
    from unhang.wire.documents.pace import Frames, Pace

TOGETHER_S = whole_threshold("nonfatal_mismatch.together_s")


def find_nonfatal_mismatches(
    groups: Mapping[str, GroupFacts], recordings: Mapping[int, RecorderDump]
) -> tuple[CallMismatch, ...]:
    """In each group the first position that every rank has passed although they called different things there."""
    from unhang.facts.alignment.call_table import CallTable

    found = []
    for _, recorded in sorted(groups.items()):
        if len(recorded.entries) < 2:
            continue
        group = replace(recorded, entries={rank: entries_of_latest_group(e) for rank, e in recorded.entries.items()})
        table = CallTable(group)
        passed = min(int(entries.position[-1]) for entries in group.entries.values())
        wrong = {
            p: k
            for p in table.shared_positions()
            if p < passed and table.has_unique_ranks(p) and (k := table.differences_at(p))
        }
        first = next((p for p in sorted(wrong) if _called_together(group, p) and _finished(group, p, recordings)), None)
        if first is None:
            continue
        calls = table.calls_at(first)
        found.append(
            CallMismatch(
                group=group.name,
                position=first,
                calls=calls,
                pending=calls_by_rank(group, first, recordings),
                differs_in=wrong[first],
                outliers=minority(calls),
                records_align=table.all_recorded_before(first),
                times=len(wrong),
            )
        )
    return tuple(found)


def entries_of_latest_group(entries: RecorderEntries) -> RecorderEntries:
    """Without what an earlier group of the same name called: a job may tear its groups down and make them again."""
    again = (entries.position[1:] < entries.position[:-1]).nonzero()[0]
    return select_rows(entries, range(int(again[-1]) + 1, len(entries))) if len(again) else entries


def _called_together(group: GroupFacts, position: int) -> bool:
    """All ranks called within minutes: else one of them may have made the group anew already, and counts from 1."""
    created = [int(e.created_ns[at]) for e in group.entries.values() for at in (e.position == position).nonzero()[0]]
    return not created or max(created) - min(created) < TOGETHER_S * 1e9


def _finished(group: GroupFacts, position: int, recordings: Mapping[int, RecorderDump]) -> bool:
    """No rank is still in it. Gloo's records never say so, but its ranks have called something after it."""
    for rank, entries in group.entries.items():
        at = (entries.position == position).nonzero()[0]
        done = entries.retired[at] | (entries.state[at] == STATE_COMPLETED)
        if recordings[rank].backend != "gloo" and not done.all():
            return False
    return True


def nonfatal_from_comparisons(
    comparisons: Sequence[CallComparison], paces: Sequence[Pace] = ()
) -> tuple[CallMismatch, ...]:
    """What a watcher compared while the job went on. Its dumps name no lines: where its looks saw a rank at one line
    only in such a call, it is that line."""
    seen: dict[int, list[Frames]] = defaultdict(list)
    for pace in paces:
        for rank in pace.ranks:
            seen[rank.rank].extend(place.frames for place in rank.places)
    return tuple(_mismatch(one, seen) for one in sorted(comparisons, key=lambda c: (c.group, c.position)))


def _mismatch(comparison: CallComparison, seen: Mapping[int, Sequence[Frames]]) -> CallMismatch:
    by_call: dict[Signature, list[int]] = {}
    for call in comparison.calls:
        by_call.setdefault(_signature(call), []).append(call.rank)
    calls = dict(sorted(((s, tuple(sorted(r))) for s, r in by_call.items()), key=lambda item: (-len(item[1]), item[1])))
    return CallMismatch(
        group=comparison.group,
        position=comparison.position,
        calls=calls,
        pending={c.rank: _pending(comparison, c, seen.get(c.rank, ())) for c in comparison.calls},
        differs_in=signature_differences(list(calls)),
        outliers=minority(calls),
        records_align=comparison.aligned,
        times=comparison.times,
    )


def _signature(call: ComparedCall) -> Signature:
    sizes, dtypes = (call.input_sizes, call.output_sizes), (call.input_dtypes, call.output_dtypes)
    return Signature(call.operation, None, *sizes, *dtypes)


def _pending(comparison: CallComparison, call: ComparedCall, seen: Sequence[Frames]) -> PendingCall:
    signature, frames = _signature(call), frames_of(call.frames or _seen_in(call.operation, seen))
    text = f"{signature.operation} #{comparison.position} in group {comparison.group}"
    evidence = Evidence(comparison.source, text, call.rank)
    return signed_call(comparison.group, comparison.position, signature, frames, evidence)


def _seen_in(operation: str, seen: Sequence[Frames]) -> Frames:
    within = [frames for frames in seen if any(may_be_recorded_as(function, operation) for _, _, function in frames)]
    return within[0] if len({first_user_frame(frames_of(frames)) for frames in within}) == 1 else ()
