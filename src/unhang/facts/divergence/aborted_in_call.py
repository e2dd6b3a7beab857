"""Ranks that Gloo ended because more arrived than they expected, and laggards without a record in another call.

Of those that differ, such a rank asked for the fewest bytes. It leaves no record of the call, and that does not make it
the cause: where the one that is sent more, an innocent one falls. What the others recorded tells which it was.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from unhang.evidence.items import LogEvent, RecorderDump, Signature
from unhang.facts.alignment.position_calls import calls_by_rank, find_departure, keeps_order
from unhang.facts.collective_operations import canonical_operation, minority
from unhang.facts.model import Activity, CallMismatch, Facts, GroupFacts, PendingCall, RankFacts, Stall
from unhang.facts.waiting.progress_from_stacks import waiting_activity

_TOO_MUCH = "op.preamble.length <= op.nbytes"
_WIDTHS = {
    **dict.fromkeys(("bool", "byte", "char", "uint8", "int8"), 1),
    **dict.fromkeys(("half", "bfloat16", "short", "float16", "int16"), 2),
    **dict.fromkeys(("float", "int", "float32", "int32"), 4),
    **dict.fromkeys(("double", "long", "float64", "int64"), 8),
}


def assign_aborted_ranks(
    disagreements: tuple[CallMismatch, ...],
    groups: Mapping[str, GroupFacts],
    ranks: Mapping[int, RankFacts],
    recordings: Mapping[int, RecorderDump],
    events: Sequence[LogEvent],
) -> tuple[CallMismatch, ...]:
    """``disagreements`` with the ranks that Gloo ended on the side they were on; or, where all records agree and only
    such ranks have none, the disagreement that they show by it."""
    aborted = ranks_aborted_by_gloo(ranks, events)
    if not aborted:
        return disagreements
    if disagreements:
        return tuple(_add_to_side(mismatch, groups[mismatch.group], aborted, ranks) for mismatch in disagreements)
    found = [_by_elimination(group, aborted, ranks, recordings) for _, group in sorted(groups.items())]
    only = [mismatch for mismatch in found if mismatch is not None]
    return tuple(only) if len(only) == 1 else ()


def ranks_aborted_by_gloo(ranks: Mapping[int, RankFacts], events: Iterable[LogEvent]) -> tuple[int, ...]:
    """Ranks of whose end Gloo said so, or that aborted inside one of its collectives, as their own dying words tell."""
    said = {event.rank for event in events if event.kind == "gloo.enforce" and _TOO_MUCH in event.text}
    gloo = any(known.recording is not None and known.recording.backend == "gloo" for known in ranks.values())
    return tuple(rank for rank, known in sorted(ranks.items()) if rank in said or (gloo and _aborted_inside(known)))


def ended_by_gloo(facts: Facts) -> tuple[int, ...]:
    """Ranks that aborted in a job in which Gloo said that it ends one."""
    return tuple(rank for rank, known in sorted(facts.ranks.items()) if _aborted(known))


def _aborted(known: RankFacts) -> bool:
    return known.exit is not None and known.exit.exit_code in (-signal.SIGABRT, 128 + signal.SIGABRT)


def _aborted_inside(known: RankFacts) -> bool:
    if known.recording is not None or known.stack is None or not _aborted(known):
        return False
    return known.stack.fatal.startswith("Abort") and waiting_activity(known) is not None


def _add_to_side(
    mismatch: CallMismatch, group: GroupFacts, aborted: tuple[int, ...], ranks: Mapping[int, RankFacts]
) -> CallMismatch:
    heard = {rank for side in mismatch.calls.values() for rank in side}
    calls = list(mismatch.calls)
    silent = tuple(rank for rank in aborted if rank not in heard and _in_call(ranks[rank], calls[0].operation))
    if (
        not silent
        or len(calls) != 2
        or canonical_operation(calls[0].operation) != canonical_operation(calls[1].operation)
    ):
        return mismatch
    amounts = [_bytes_of(call) for call in calls]
    if None in amounts or amounts[0] == amounts[1]:
        return mismatch
    fewest = min(zip(amounts, range(2), strict=True))[1]
    sides = {call: (*mismatch.calls[call], *(silent if at == fewest else ())) for at, call in enumerate(calls)}
    left = find_departure(group.entries, mismatch.position)
    odd = next((side for side in sides.values() if left is not None and set(left.ranks) <= set(side)), minority(sides))
    return replace(mismatch, outliers=tuple(sorted(odd)), aborted=silent)


def _by_elimination(
    group: GroupFacts, aborted: tuple[int, ...], ranks: Mapping[int, RankFacts], recordings: Mapping[int, RecorderDump]
) -> CallMismatch | None:
    """Every other rank of the group called alike, and whoever sent too much is one of them, unless their own earlier
    calls lead to another one. Nobody is odd where there are as many on each side, at one line."""
    last = {rank: int(entries.position[-1]) for rank, entries in group.entries.items() if len(entries)}
    silent = tuple(rank for rank in aborted if rank not in last and rank in group.members)
    others = set(group.members) - set(silent)
    if not silent or others != set(last) or len(set(last.values())) != 1:
        return None
    signatures = {
        entries.signatures[int(entries.signature[-1])] for rank, entries in group.entries.items() if rank in others
    }
    position = next(iter(last.values()))
    left = find_departure(group.entries, position, some_missing=True)
    kept = all(keeps_order(group.entries[rank], position) for rank in others)
    if len(signatures) != 1:
        return None
    tied = left is None and len(silent) >= len(others) and not kept
    (call,) = signatures
    if not all(_in_call(ranks[rank], call.operation) for rank in silent):
        return None
    pending = calls_by_rank(group, position, recordings)
    if tied and {_line(ranks[rank].activity) for rank in silent} != {_line(one) for one in pending.values()}:
        return None
    calls = {call: tuple(sorted(others))}
    odd = left.ranks if left is not None else () if tied else silent
    return CallMismatch(group.name, position, calls, pending, ("bytes",), odd, records_align=True, aborted=silent)


def _line(one: Activity | PendingCall | None) -> tuple[str, int | None] | None:
    return (one.where.file, one.where.line) if one is not None and one.where is not None else None


def _in_call(known: RankFacts, operation: str) -> bool:
    """Its stack stands in this operation, or there is none that says otherwise."""
    activity = known.activity
    if activity is None or activity.operation is None:
        return True
    return canonical_operation(activity.operation) == canonical_operation(operation) or {
        "all_gather",
        "all_gather_into_tensor",
    } >= {canonical_operation(activity.operation), canonical_operation(operation)}


def _bytes_of(call: Signature) -> int | None:
    """Bytes a rank brings; None where a type is not known."""
    types = set(call.input_dtypes)
    width = _WIDTHS.get(types.pop()) if len(types) == 1 else None
    return call.input_elements * width if width is not None else None


def gloo_sizes_differ(facts: Facts) -> bool:
    """Gloo met an amount that the call had not asked for, and ended a process."""
    return bool(facts.events_of("gloo.enforce")) or bool(ranks_aborted_by_gloo(facts.ranks, facts.events))


def laggards_wait_elsewhere(facts: Facts, stall: Stall) -> bool:
    """They stand in a collective, or in backward with its hooks, and do not move; or Gloo said that sizes differ."""
    if stall.reason not in ("silent", "dead"):
        return False
    laggards = [facts.ranks[rank] for rank in stall.laggards]
    inside = [a for known in laggards if known.recording is None and (a := waiting_activity(known)) is not None]
    still = all(known.moving is False for known in laggards)
    return len(inside) == len(laggards) and (still or gloo_sizes_differ(facts))
