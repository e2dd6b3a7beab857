"""Two threads of one process that are in collectives of one group at the same time: a checkpoint's and the training's.

The library pairs calls by order, and which thread comes first is chance on each rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from unhang.facts.alignment.group_table import recorded_call
from unhang.facts.collective_operations import POINT_TO_POINT, canonical_operation
from unhang.facts.model import Activity, Facts, GroupFacts, RankFacts
from unhang.facts.stacks.activity import is_in_thread
from unhang.facts.stacks.calls_on_line import call_spelled_on_line
from unhang.facts.waiting.progress_from_stacks import STACK_GROUP, in_collective, is_in_backward
from unhang.findings import Phase
from unhang.program.syntax.syntax_tree import find_source

_MAX_RECENT = 8
"""So many of a rank's last recorded calls are searched for the two: each thread has no more than one in flight."""


@dataclass(frozen=True, slots=True)
class ConcurrentCollectives:
    """``ranks`` have both threads; ``main`` and ``other`` are those of the first of them."""

    ranks: tuple[int, ...]
    main: Activity
    other: Activity
    group: str | None
    """In which records show both calls; None where stacks alone tell, of a job with a single group."""


def concurrent_collectives(facts: Facts) -> ConcurrentCollectives | None:
    """None where nobody waits, no rank has two such threads, or the two are in groups of their own."""
    if not (facts.graph.edges or facts.mismatches or any(group.pending_calls for group in facts.groups.values())):
        return None
    found = {
        rank: pair
        for rank, known in sorted(facts.ranks.items())
        if known.alive and not known.moving and (pair := _pair(known)) is not None
    }
    if not found:
        return None
    groups = {rank: _groups_of(facts.groups, rank, pair) for rank, pair in found.items()}
    told = {name for names in groups.values() for name in names if name is not None}
    if any(name is None for names in groups.values() for name in names) or len(told) > 1:
        return None
    if not told and any(_names_group(facts, call) for pair in found.values() for call in pair):
        return None  # one of its own, most likely
    main, other = found[min(found)]
    return ConcurrentCollectives(tuple(found), main, other, next(iter(told), None))


def _names_group(facts: Facts, call: Activity) -> bool:
    source = find_source(facts.sources, call.where.file) if call.where is not None else None
    if source is None or call.where is None or call.where.line is None:
        return False
    return "group=" in (call_spelled_on_line(source, call.where.line, call.operation or "") or "")


def _pair(known: RankFacts) -> tuple[Activity, Activity] | None:
    """The two threads of a rank, the one that trains first; they stand at lines of their own. Backward counts where it
    sleeps, in the all-reduce of a hook."""
    everything = [a for a in (known.activity, *known.threads) if a and (a.where or is_in_thread(a.frames))]
    waits = [_in_hook(a) if is_in_backward(known, a) else a for a in everything]
    inside = [a for a in waits if in_collective(a) and a.operation not in POINT_TO_POINT]
    if len(inside) != 2 or inside[0].where == inside[1].where:
        return None
    main, other = sorted(inside, key=lambda a: a.what != "backward")
    return main, other


def _in_hook(backward: Activity) -> Activity:
    return replace(backward, operation="all_reduce", phase=Phase.COMMUNICATION)


def _groups_of(groups: Mapping[str, GroupFacts], rank: int, pair: tuple[Activity, Activity]) -> tuple[str | None, ...]:
    """The one group whose last records show both calls; (None,) where they are of two groups, or the job has several
    and nothing tells; empty where it has one and its records do not tell."""
    shown = [{name for name, group in groups.items() if _has_called(group, rank, call)} for call in pair]
    both = shown[0] & shown[1]
    if both:
        return (min(both),)
    several = len([name for name in groups if not name.startswith(STACK_GROUP)]) > 1
    return (None,) if several or all(shown) else ()


def _has_called(group: GroupFacts, rank: int, call: Activity) -> bool:
    entries = group.entries.get(rank)
    if entries is None or not len(entries):
        return False
    for index in range(max(0, len(entries) - _MAX_RECENT), len(entries)):
        recorded = recorded_call(rank, group.name, entries, index, call.evidence.source)
        same_line = recorded.where is None or call.where is None or recorded.where.line == call.where.line
        if same_line and canonical_operation(recorded.operation) == canonical_operation(call.operation or ""):
            return True
    return False
