"""Whether ranks name different roots in one broadcast, reduce, gather or scatter: no record tells the root."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from unhang.evidence.items import SourceFile
from unhang.facts.collective_operations import operation_row
from unhang.facts.model import Facts, PendingCall, Stall
from unhang.findings import Where
from unhang.program.rank_dependence.rank_values import rank_values
from unhang.program.rank_dependence.same_on_all_ranks import may_differ_by_rank
from unhang.program.syntax.syntax_tree import LinePosition, call_name, expression_text, find_line

_ROOT_KEYWORDS = {"src", "dst", "root", "group_src", "group_dst"}


@dataclass(frozen=True, slots=True)
class DifferingRoots:
    """``ranks`` are in ``call`` and name different roots: ``root``, as the source spells it."""

    ranks: tuple[int, ...]
    group: str
    call: PendingCall
    root: str
    depends_on_rank: bool
    """It does by the source; else every rank works it out by itself."""
    some_finished: bool = False


def differing_roots(facts: Facts) -> Iterator[DifferingRoots]:
    """Calls that all joined, and calls that some have finished and others are in still."""
    for joined in () if facts.graph.edges else facts.all_joined_stalls:
        call = joined.pending[joined.ranks[0]]
        root = rank_dependent_root(call.where, facts.sources)
        if root is not None:
            yield DifferingRoots(joined.ranks, joined.group, call, root, depends_on_rank=True)
        elif _carried_inside_one_machine(facts) and (root := computed_root(call.where, facts.sources)) is not None:
            yield DifferingRoots(joined.ranks, joined.group, call, root, depends_on_rank=False)
    for stall in facts.stalls:
        passed = partly_finished_call(facts, stall)
        root = rank_dependent_root(passed.where, facts.sources) if passed is not None else None
        if passed is not None and root is not None:
            yield DifferingRoots(stall.laggards, stall.group, passed, root, depends_on_rank=True, some_finished=True)


def _carried_inside_one_machine(facts: Facts) -> bool:
    """By Gloo, whose connections inside a machine do not fail by themselves."""
    recordings = [known.recording for known in facts.ranks.values()]
    hosts = {known.host for known in facts.ranks.values()}
    return len(hosts) == 1 and all(one is not None and one.backend == "gloo" for one in recordings)


def rank_dependent_root(where: Where | None, sources: Mapping[str, SourceFile]) -> str | None:
    """``src=int(rank == 0)`` where the call on that line gives each rank another root, as the source spells it."""
    for place, name, value in _roots(where, sources):
        if rank_values(place.program).value_depends(value, place.scopes):
            return f"{name}={expression_text(value)}"
    return None


def computed_root(where: Where | None, sources: Mapping[str, SourceFile]) -> str | None:
    """``src=best`` where nothing shows that each rank works out the same root."""
    for place, name, value in _roots(where, sources):
        if may_differ_by_rank(place.program, value, place.scopes, getattr(value, "lineno", 1)):
            return f"{name}={expression_text(value)}"
    return None


def _roots(where: Where | None, sources: Mapping[str, SourceFile]) -> Iterator[tuple[LinePosition, str, ast.expr]]:
    place = find_line(sources, where.file, where.line) if where is not None else None
    if where is None or where.line is None or place is None:
        return
    for call in place.calls(where.line):
        yield from ((place, name, value) for name, value in _root_arguments(call))


def _root_arguments(call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    at = operation_row(call_name(call)).root
    if at is None:
        return
    yield from ((keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg in _ROOT_KEYWORDS)
    if len(call.args) > at:
        yield "dst" if "gather" in call_name(call) or call_name(call) == "reduce" else "src", call.args[at]


def partly_finished_call(facts: Facts, stall: Stall) -> PendingCall | None:
    """The rooted call that all laggards are in, at one line and position, and that a member of the group has finished.

    Who gets its data from a root that the others do not name is done at once; who names another root waits.
    """
    group = facts.groups.get(stall.group)
    calls = [call for rank in stall.laggards if group is not None and (call := group.pending(rank)) is not None]
    if group is None or not calls or len(calls) < len(stall.laggards):
        return None
    first = calls[0]
    alike = all((c.operation, c.position, c.where) == (first.operation, first.position, first.where) for c in calls)
    position = first.position
    if not alike or operation_row(first.operation).root is None or position is None:
        return None
    return first if any(known.completed >= position for known in group.progress.values()) else None
