"""A circle over two groups that is no matter of order: in one and the same block, some stand below the call that the
others wait in with them, so that they went around it.

A rank one round behind cannot stand so: those it waits for have not entered its call, so they are not past it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from itertools import product

from unhang.evidence.items import Frame
from unhang.facts.model import Facts, PendingCall, WaitEdge
from unhang.facts.stacks.stack_divergence import common_block, first_differing_frames
from unhang.program.syntax.syntax_tree import LinePosition, expression_text, find_line


@dataclass(frozen=True, slots=True)
class SkippedCollective:
    """``gone`` stand in ``call`` at ``gone_line``, below ``line`` where ``waiting`` are in ``left``."""

    gone: tuple[int, ...]
    call: PendingCall
    gone_line: int
    waiting: tuple[int, ...]
    left: PendingCall
    line: int
    test_line: int | None = None
    """The innermost ``if`` on the way to the call that was left out."""
    test: str = ""


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
    first = found[0]
    return SkippedCollective(
        gone, first.call, first.gone_line, waiting, first.left, first.line, first.test_line, first.test
    )


def _pair(facts: Facts, there: WaitEdge, back: WaitEdge) -> SkippedCollective | None:
    """``there``: who waits for whom may have gone around. ``back``: that one waits in another group."""
    left, call = facts.groups[there.group].pending(there.waiter), facts.groups[back.group].pending(back.waiter)
    if left is None or call is None:
        return None
    frames = _frames(facts, there.waiter, left)
    parted = first_differing_frames(frames, _frames(facts, back.waiter, call))
    if parted is None or parted[0].line is None or parted[1].line is None:
        return None
    line, gone_line = parted[0].line, parted[1].line
    place, below = (find_line(facts.sources, parted[0].file, at) for at in (line, gone_line))
    depth = common_block(place, below) if place is not None and below is not None else None
    if place is None or depth is None:
        return None
    test = _test(facts, frames, parted[0], place, depth)
    return SkippedCollective(
        (back.waiter,),
        call,
        gone_line,
        (there.waiter,),
        left,
        line,
        test.lineno if test is not None else None,
        expression_text(test) if test is not None else "",
    )


def _frames(facts: Facts, rank: int, call: PendingCall) -> tuple[Frame, ...]:
    activity = facts.ranks[rank].activity
    return tuple(call.stack) or (activity.frames if activity is not None else ())


def _test(facts: Facts, frames: tuple[Frame, ...], parted: Frame, place: LinePosition, depth: int) -> ast.expr | None:
    """The innermost ``if`` around the waiters' call that is not around both."""
    for frame in frames:
        at_parting = frame == parted
        inner = place if at_parting else find_line(facts.sources, frame.file, frame.line)
        levels = inner.levels[depth + 1 :] if at_parting and inner is not None else inner.levels if inner else ()
        for level in reversed(levels):
            if isinstance(level.owner, ast.If):
                return level.owner.test
        if at_parting:
            return None
    return None
