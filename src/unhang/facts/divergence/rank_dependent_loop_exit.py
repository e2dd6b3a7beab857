"""Ranks that have left a loop, in which the others still are, because the rank says how often it runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from unhang.evidence.items import Frame, SourceFile
from unhang.facts.divergence.aborted_in_call import caught_in_a_call
from unhang.facts.endings.crashes import own_crashes
from unhang.facts.model import CodeContext, Disagreement, Facts, Stall
from unhang.facts.stacks.rank_cohorts import Camp, camps_of_disagreement, camps_of_stall
from unhang.findings import Where
from unhang.knowledge.activities import bare_function
from unhang.program.rank_dependence.rank_dependent_rounds import RankBound, rank_bounds
from unhang.program.rank_dependence.step_loops import step_loops
from unhang.program.rank_dependence.value_for_rank import test_value
from unhang.program.syntax.syntax_tree import Loop, Place, Program, Scope, first_line, last_line, program_of


@dataclass(frozen=True, slots=True)
class LeftByRank:
    """``past`` has left ``loop``, ``inside`` waits in it; ``bound`` makes them differ."""

    past: Camp
    inside: Camp
    loop: Where
    bound: RankBound
    told_by: Disagreement | Stall

    @property
    def jump(self) -> Where:
        """Where the header or the jump stands."""
        return replace(self.loop, line=self.bound.line)


def left_by_rank(facts: Facts) -> Iterator[LeftByRank]:
    """Every disagreement and stall of which the rank had settled beforehand that it would divide the ranks so."""
    divided: tuple[Disagreement | Stall, ...] = (*facts.disagreements, *facts.stalls)
    for told_by in divided:
        for past, inside in _pairs(facts, told_by):
            bound = next((found for found in rank_bounds_between(facts, past, inside) if found[1].counted), None)
            if bound is not None:
                yield LeftByRank(past, inside, *bound, told_by)
                break


def settled_by_rank(facts: Facts, past: Camp, inside: Camp) -> bool:
    """The rank had settled beforehand how many rounds each of the two makes."""
    return any(bound.counted for _, bound in rank_bounds_between(facts, past, inside))


def _pairs(facts: Facts, told_by: Disagreement | Stall) -> Iterator[tuple[Camp, Camp]]:
    """(perhaps past the loop, perhaps inside it)."""
    if isinstance(told_by, Disagreement):
        camps = camps_of_disagreement(facts, told_by)
        yield from ((past, inside) for past in camps for inside in camps if past is not inside)
        return
    lag, wait = camps_of_stall(facts, told_by)
    yield lag, wait
    if caught_in_a_call(facts, told_by):
        yield wait, lag


def rank_bounds_between(facts: Facts, past: Camp, inside: Camp) -> Iterator[tuple[Where, RankBound]]:
    """What of the rank led ``past`` out of a loop around ``inside``, with the header of that loop."""
    if CodeContext.EXCEPT_HANDLER in (past.context, inside.context) or _fell(facts, past.ranks):
        return
    for loop, program, scopes, where in _loops_left(past, inside, facts.sources):
        if (known := step_loops(program).facts(loop, scopes)) is None or not known.makes_steps:
            continue
        for bound in rank_bounds(program, loop, scopes):
            if bound.kind == "loop" or _concerns(bound, past, inside, facts.world_size):
                yield where, bound


def _concerns(bound: RankBound, past: Camp, inside: Camp, world_size: int | None) -> bool:
    """As far as the test can be worked out, it lets ``past`` leave and not ``inside``."""
    let_out = [test_value(bound.test, rank, world_size) for rank in past.ranks]
    kept = [test_value(bound.test, rank, world_size) for rank in inside.ranks]
    return False not in let_out and True not in kept


def _loops_left(
    past: Camp, inside: Camp, sources: Mapping[str, SourceFile]
) -> Iterator[tuple[Loop, Program, Sequence[Scope], Where]]:
    """Loops of steps around ``inside``, innermost first, up to where the two stacks part; past is behind them all."""
    for frame in inside.frames:
        at = _placed(frame, sources)
        if at is None or frame.line is None:
            continue
        program, place = at
        other = None if past.ended else _same_function(frame, past.frames)
        behind = None if other is None else _statement_before(program, other, frame.line)
        if other is not None and behind is None:
            return
        for level in reversed(place.levels):
            if level.statement is behind:
                break
            if isinstance(level.owner, ast.For | ast.AsyncFor | ast.While) and level.part == "body":
                where = Where(frame.file, level.owner.lineno, frame.function)
                yield level.owner, program, place.scopes, where
        if behind is not None:
            return


def _same_function(frame: Frame, others: Sequence[Frame]) -> Frame | None:
    same = (f for f in others if f.file == frame.file and bare_function(f.function) == bare_function(frame.function))
    return next((other for other in same if not other.native and other.line is not None), None)


def _statement_before(program: Program, past: Frame, line: int) -> ast.stmt | None:
    """The statement that holds ``line`` and is over where ``past`` stands; None where ``past`` is not behind it."""
    place = program.place(past.line) if past.line is not None else None
    for level in place.levels if place is not None else ():
        for statement in level.block[: level.index]:
            if first_line(statement) <= line <= last_line(statement):
                return statement
    return None


def _placed(frame: Frame, sources: Mapping[str, SourceFile]) -> tuple[Program, Place] | None:
    program = program_of(sources, frame.file) if frame.line is not None and not frame.native else None
    place = program.place(frame.line) if program is not None and frame.line is not None else None
    return (program, place) if program is not None and place is not None else None


def _fell(facts: Facts, ranks: tuple[int, ...]) -> bool:
    """They did not leave the loop, an exception took them out of it."""
    return not {crash.rank for crash in own_crashes(facts)}.isdisjoint(ranks)
