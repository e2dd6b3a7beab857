"""Calls that some wait in and others have gone on from: circles over two groups, sends and receives without a partner.

In one and the same block, some stand below the call that the others wait in with them, so that they went around it. A
rank one round behind cannot stand so: those it waits for have not entered its call, so they are not past it. Partners
of a send stand in a collective, in a later send or receive of the same block, or have ended. That is no matter of
order: the two sides do not make the same number of calls.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from unhang.evidence.items import Frame, SourceFile
from unhang.facts.alignment.group_table import recorded_call
from unhang.facts.alignment.position_calls import first_extra_call
from unhang.facts.collective_operations import POINT_TO_POINT
from unhang.facts.divergence.bypass_paths import BypassPath, paths_around_call
from unhang.facts.model import Activity, Facts, PendingCall, RankState, Stall, WaitEdge
from unhang.facts.stacks.source_context import is_rank_conditional, stack_context
from unhang.facts.stacks.stack_divergence import common_block, first_differing_frames
from unhang.facts.stacks.user_frames import is_user_frame
from unhang.findings import Where
from unhang.program.rank_dependence.step_loops import functions_that_call
from unhang.program.syntax.syntax_tree import (
    LinePosition,
    ParsedFile,
    call_name,
    expression_text,
    find_line,
    find_source,
)


@dataclass(frozen=True, slots=True)
class SkippedCollective:
    """``gone`` stand in ``call`` at ``gone_line``, below ``line`` where ``waiting`` are in ``left``."""

    gone: tuple[int, ...]
    call: PendingCall
    gone_line: int
    waiting: tuple[int, ...]
    left: PendingCall
    line: int
    around: tuple[BypassPath, ...] = ()
    """What leads around it and not around both."""


def skipped_collective(facts: Facts, cycle: tuple[int, ...]) -> SkippedCollective | None:
    """For a circle of collectives in the wait-for graph; None where their lines stand in different arms, or nothing
    tells."""
    edges = [e for e in facts.graph.edges if e.waiter in cycle and e.awaited in cycle]
    if any(edge.reason == "p2p-partner" for edge in edges):
        return None
    found = [
        one
        for there, back in product(edges, edges)
        if (there.waiter, there.awaited) == (back.awaited, back.waiter) and there.group != back.group
        if (one := _pair(facts, there, back)) is not None
    ]
    gone = tuple(sorted({rank for one in found for rank in one.gone}))
    waiting = tuple(sorted({rank for one in found for rank in one.waiting}))
    if not found or set(gone) & set(waiting) or {*gone, *waiting} != set(cycle):
        return None
    return replace(found[0], gone=gone, waiting=waiting)


@dataclass(frozen=True, slots=True)
class ExtraCall:
    """``rank`` made ``call`` without ``others``, whose next call in that group, at ``matched``, was taken for it."""

    rank: int
    others: tuple[int, ...]
    call: PendingCall
    matched: Where
    around: tuple[BypassPath, ...]


def extra_call(facts: Facts, cycle: tuple[int, ...]) -> ExtraCall | None:
    """For a circle of collectives: who is a call ahead in the group in which it waits, since it made one besides that
    nobody waited for. From there on the others' calls are its own, one later; None where records do not show that."""
    for edge in facts.graph.edges:
        group = facts.groups.get(edge.group) if {edge.waiter, edge.awaited} <= set(cycle) else None
        pending = group.pending(edge.waiter) if group is not None else None
        if group is None or pending is None or pending.position is None:
            continue
        two = {rank: group.entries[rank] for rank in (edge.waiter, edge.awaited) if rank in group.entries}
        first = first_extra_call(two, (edge.waiter,), pending.position)
        if len(two) < 2 or first == pending.position:
            continue
        mine, theirs = (
            recorded_call(rank, group.name, one, int(one.position.searchsorted(first)), pending.evidence.source)
            for rank, one in two.items()
        )
        if theirs.where is not None:
            others = tuple(sorted(set(group.entries) - {edge.waiter}))
            around = paths_around_call(mine.stack, facts.sources)
            return ExtraCall(edge.waiter, others, mine, theirs.where, around)
    return None


def _pair(facts: Facts, there: WaitEdge, back: WaitEdge) -> SkippedCollective | None:
    """``there``: who waits for whom may have gone around. ``back``: that one waits in another group."""
    left, call = facts.groups[there.group].pending(there.waiter), facts.groups[back.group].pending(back.waiter)
    if left is None or call is None:
        return None
    frames, gone_frames = _frames(facts, there.waiter, left), _frames(facts, back.waiter, call)
    parted = first_differing_frames(frames, gone_frames)
    if parted is None or parted[0].line is None or parted[1].line is None:
        return None
    line, gone_line = parted[0].line, parted[1].line
    place, below = (find_line(facts.sources, parted[0].file, at) for at in (line, gone_line))
    if place is None or below is None or common_block(place, below) is None:
        return None
    # a jump above both leads around it too: those who have gone past may have done so in an earlier round
    shared = [way for way in paths_around_call(gone_frames, facts.sources) if way.kind == "if"]
    around = tuple(way for way in paths_around_call(frames, facts.sources) if way not in shared)
    return SkippedCollective((back.waiter,), call, gone_line, (there.waiter,), left, line, around)


def _frames(facts: Facts, rank: int, call: PendingCall) -> tuple[Frame, ...]:
    activity = facts.ranks[rank].activity
    return tuple(call.stack) or (activity.frames if activity is not None else ())


_MAX_PLACES = 16


@dataclass(frozen=True, slots=True)
class UnmatchedP2P:
    """``gone`` stand in ``operation`` (none where they have ended); ``waiting`` are in a send or receive with them."""

    gone: tuple[int, ...]
    operation: str | None
    call: PendingCall | None
    """That of ``gone``, where it is recorded."""
    waiting: tuple[int, ...]
    left: PendingCall
    group: str
    in_a_loop: bool
    """Those who wait go through several rounds of it: the numbers of rounds differ."""
    past_line: int | None = None
    """Where ``gone`` had its part, above the line at which it stands; None where it is in a collective."""
    past_test: str = ""
    """The test on its own data under which that part stands."""


def unmatched_p2p(facts: Facts) -> Iterator[UnmatchedP2P]:
    """For every circle of the wait-for graph, every stall of a send or receive, and ranks of which no line names the
    partner."""
    found = [unmatched_in_cycle(facts, cycle) for cycle in facts.graph.cycles]
    found += [_unmatched_in_stall(facts, stall) for stall in facts.stalls]
    found += [unmatched_unnamed_partners(facts), _unmatched_laggards(facts)]
    yield from (one for one in found if one is not None)


def unmatched_in_cycle(facts: Facts, cycle: tuple[int, ...]) -> UnmatchedP2P | None:
    """None when partners wait for each other in sends and receives, and none is past its own."""
    edges = [e for e in facts.graph.edges if e.reason == "p2p-partner" and e.waiter in cycle and e.awaited in cycle]
    gone = tuple(sorted({e.awaited for e in edges}))
    waiting = tuple(sorted({e.waiter for e in edges}))
    if not edges:
        return None
    if set(gone) & set(waiting):
        circle = (e for e in facts.graph.edges if e.waiter in cycle and e.awaited in cycle)
        return _skipped_counterpart(facts, [(e.waiter, e.awaited, e.group) for e in circle])
    return _unmatched(facts, gone, waiting, edges[0].group)


def _unmatched_in_stall(facts: Facts, stall: Stall) -> UnmatchedP2P | None:
    if stall.call is None or stall.call.operation not in POINT_TO_POINT:
        return None
    return _unmatched(facts, stall.laggards, stall.direct_waiters, stall.group)


def _unmatched(facts: Facts, gone: tuple[int, ...], waiting: tuple[int, ...], group: str) -> UnmatchedP2P | None:
    left = facts.groups[group].pending(waiting[0])
    operations = [_collective_of(facts, rank) for rank in gone]
    if left is None or not all(operations):
        return None
    operation, call = operations[0] or (None, None)
    frames = call.stack if call is not None else ()
    return UnmatchedP2P(gone, operation, call, waiting, left, group, _may_differ_in_rounds(facts, left.stack, frames))


def _unmatched_laggards(facts: Facts) -> UnmatchedP2P | None:
    """Those awaited in a collective are all in sends and receives of which nothing names the partner: it is among those
    who have come to the collective, unless the others have each other."""
    waiting, gone = facts.graph.roots, facts.graph.waiters
    if not waiting or facts.graph.cycles or any(stall.reason != "not-entered" for stall in facts.stalls):
        return None
    calls = [
        (name, call)
        for rank in waiting
        for name, group in sorted(facts.groups.items())
        if (call := group.pending(rank)) is not None and call.operation in POINT_TO_POINT
    ]
    kinds = {call.operation.removeprefix("i") for _, call in calls}
    if len(calls) != len(waiting) or kinds == {"send", "recv"}:
        return None
    return _unmatched(facts, gone, waiting, calls[0][0])


def _collective_of(facts: Facts, rank: int) -> tuple[str | None, PendingCall | None] | None:
    """What it is in, (None, None) where it has ended; None where it stands in no collective."""
    for _, group in sorted(facts.groups.items()):
        call = group.pending(rank)
        if call is not None and call.operation not in POINT_TO_POINT:
            return call.operation, call
    known = facts.ranks[rank]
    if known.state is RankState.ENDED:
        return None, None
    if not known.alive:
        return None
    activity = known.activity
    named = activity.operation if activity is not None else None
    return (named, None) if named is not None and named not in POINT_TO_POINT else None


def _may_differ_in_rounds(facts: Facts, left: tuple[Frame, ...], gone: tuple[Frame, ...]) -> bool:
    """Those who wait go through rounds of it that the others do not share: in one loop with them, these went around it
    in the same round."""
    if stack_context(left, facts.sources).loop is None:
        return False
    parted = first_differing_frames(left, gone)
    if parted is None:
        return True
    below = left[: left.index(parted[0])]
    if below and stack_context(below, facts.sources).loop is not None:
        return True
    mine, theirs = (stack_context((frame,), facts.sources).loop for frame in parted)
    return mine != theirs


# ---------------------------------------------------------------------------------------------------
# all of them in sends and receives


def unmatched_unnamed_partners(facts: Facts) -> UnmatchedP2P | None:
    """Of ranks that are all in sends and receives whose partners nothing names; one rank stands for a place."""
    if facts.graph.edges:
        return None
    places: dict[object, tuple[int, str]] = {}
    for name, group in sorted(facts.groups.items()):
        for rank, call in sorted(group.pending_calls.items(), key=lambda item: item[0]):
            if call.operation in POINT_TO_POINT:
                places.setdefault(call.stack, (rank, name))
    seen = list(places.values())[:_MAX_PLACES]
    return _skipped_counterpart(facts, [(one, other, name) for one, name in seen for other, _ in seen if one != other])


def _skipped_counterpart(facts: Facts, pairs: list[tuple[int, int, str]]) -> UnmatchedP2P | None:
    """Of (waiter, awaited, group): one had its part above the line where it stands, in the block that both are in."""
    past = []
    for waiter, awaited, name in pairs:
        left, gone = facts.groups[name].pending(waiter), facts.ranks[awaited].activity
        part = _counterpart_above(facts, left, gone) if left is not None and gone is not None else None
        if left is not None and gone is not None and part is not None:
            past.append((waiter, awaited, name, left, gone, part))
    gone_ranks, waiting = tuple(sorted({one[1] for one in past})), tuple(sorted({one[0] for one in past}))
    if not past or set(gone_ranks) & set(waiting):
        return None
    *_, name, left, activity, (line, test) = past[0]
    rounds = not test and _may_differ_in_rounds(facts, left.stack, activity.frames)
    return UnmatchedP2P(gone_ranks, activity.operation, None, waiting, left, name, rounds, line, test)


def _counterpart_above(facts: Facts, left: PendingCall, gone: Activity) -> tuple[int, str] | None:
    """A statement, above where ``gone`` stands and from where the two part on, that makes the other half: its line, and
    the test on its own data that lets it."""
    wanted = {"recv", "irecv"} if left.operation.endswith("send") else {"send", "isend"}
    parted = first_differing_frames(gone.frames, left.stack)
    for frame in gone.frames if parted is not None else ():
        if not is_user_frame(frame, facts.sources):
            continue
        source, here = find_source(facts.sources, frame.file), find_line(facts.sources, frame.file, frame.line)
        if source is None or here is None:
            return None
        program = here.program
        first = _first_level(program, here, parted[1].line) if parted is not None and frame == parted[0] else 0
        above = (s for level in reversed(here.levels[first:]) for s in reversed(level.block[: level.index]))
        part = next((statement for statement in above if _makes(program, statement, wanted)), None)
        if part is not None:
            return part.lineno, _test_of(program, source, part, wanted)
        if parted is not None and frame == parted[0]:
            return None
    return None


def _test_of(program: ParsedFile, source: SourceFile, part: ast.stmt, wanted: set[str]) -> str:
    """The test of an ``if`` of which only one arm makes the call; empty where it asks for the rank."""
    if not isinstance(part, ast.If):
        return ""
    arms = [[s for s in arm if _makes(program, s, wanted)] for arm in (part.body, part.orelse)]
    made = next((statement for arm in arms for statement in arm), None)
    if made is None or all(arms):
        return ""
    if is_rank_conditional(source, made.lineno) != is_rank_conditional(source, part.lineno):
        return ""  # a test on the rank
    return expression_text(part.test)


def _first_level(program: ParsedFile, here: LinePosition, other: int | None) -> int:
    """The first level at which the two stand at different statements, or in different arms."""
    there = program.place(other) if other is not None else None
    for depth, (mine, theirs) in enumerate(zip(here.levels, there.levels if there is not None else (), strict=False)):
        if mine.block is not theirs.block or mine.index != theirs.index:
            return depth
    return len(here.levels)


def _makes(program: ParsedFile, statement: ast.stmt, wanted: set[str]) -> bool:
    """It calls one of ``wanted``, itself or through functions of its file."""
    names = functions_that_call(program, wanted)
    return any(isinstance(node, ast.Call) and call_name(node) in names for node in ast.walk(statement))
