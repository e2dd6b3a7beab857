"""Ranks that have left a loop, in which the others still are, because the rank says how often it runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from unhang.evidence.items import Frame, SourceFile
from unhang.facts.divergence.aborted_in_call import laggards_wait_elsewhere
from unhang.facts.endings.crashes import primary_crashes
from unhang.facts.model import CallMismatch, CodeContext, Facts, Stall
from unhang.facts.stacks.rank_cohorts import RankCohort, cohorts_of_mismatch, cohorts_of_stall
from unhang.findings import Where
from unhang.knowledge.activities import bare_function
from unhang.program.rank_dependence.rank_dependent_rounds import RankBound, rank_bounds
from unhang.program.rank_dependence.step_loops import step_loops
from unhang.program.rank_dependence.value_for_rank import test_value
from unhang.program.syntax.syntax_tree import (
    Loop,
    ParsedFile,
    Scope,
    find_line,
    first_line,
    last_line,
)


@dataclass(frozen=True, slots=True)
class RankDependentExit:
    """``past`` has left ``loop``, ``inside`` waits in it; ``bound`` makes them differ."""

    past: RankCohort
    inside: RankCohort
    loop: Where
    bound: RankBound
    divided_by: CallMismatch | Stall


def rank_dependent_exits(facts: Facts) -> Iterator[RankDependentExit]:
    """Mismatches and stalls whose cohorts differ by a loop bound or jump that depends on the rank."""
    divided: tuple[CallMismatch | Stall, ...] = (*facts.mismatches, *facts.stalls)
    for divided_by in divided:
        for past, inside in _pairs(facts, divided_by):
            bound = next((found for found in rank_bounds_between(facts, past, inside) if found[1].counted), None)
            if bound is not None:
                yield RankDependentExit(past, inside, *bound, divided_by)
                break


def has_rank_dependent_rounds(facts: Facts, past: RankCohort, inside: RankCohort) -> bool:
    """The rank had settled beforehand how many rounds each of the two makes."""
    return any(bound.counted for _, bound in rank_bounds_between(facts, past, inside))


def _pairs(facts: Facts, divided_by: CallMismatch | Stall) -> Iterator[tuple[RankCohort, RankCohort]]:
    """(perhaps past the loop, perhaps inside it)."""
    if isinstance(divided_by, CallMismatch):
        cohorts = cohorts_of_mismatch(facts, divided_by)
        yield from ((past, inside) for past in cohorts for inside in cohorts if past is not inside)
        return
    lag, wait = cohorts_of_stall(facts, divided_by)
    yield lag, wait
    if laggards_wait_elsewhere(facts, divided_by):
        yield wait, lag


def rank_bounds_between(facts: Facts, past: RankCohort, inside: RankCohort) -> Iterator[tuple[Where, RankBound]]:
    """What of the rank led ``past`` out of a loop around ``inside``, with the header of that loop."""
    if CodeContext.EXCEPT_HANDLER in (past.context, inside.context) or was_raised_out(facts, past.ranks):
        return
    for loop, program, scopes, where in _loops_left(past, inside, facts.sources):
        if (known := step_loops(program).facts(loop)) is None or not known.makes_steps:
            continue
        for bound in rank_bounds(program, loop, scopes):
            if bound.kind == "loop" or _concerns(bound, past, inside, facts.world_size):
                yield where, bound


def _concerns(bound: RankBound, past: RankCohort, inside: RankCohort, world_size: int | None) -> bool:
    """As far as the test can be worked out, it lets ``past`` leave and not ``inside``."""
    let_out = [test_value(bound.test, rank, world_size) for rank in past.ranks]
    kept = [test_value(bound.test, rank, world_size) for rank in inside.ranks]
    return False not in let_out and True not in kept


def _loops_left(
    past: RankCohort, inside: RankCohort, sources: Mapping[str, SourceFile]
) -> Iterator[tuple[Loop, ParsedFile, Sequence[Scope], Where]]:
    """Loops of steps around ``inside``, innermost first, up to where the two stacks part; past is behind them all."""
    for frame in inside.frames:
        place = find_line(sources, frame.file, frame.line) if not frame.native else None
        if place is None or frame.line is None:
            continue
        program = place.program
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


def _statement_before(program: ParsedFile, past: Frame, line: int) -> ast.stmt | None:
    """The statement that holds ``line`` and is over where ``past`` stands; None where ``past`` is not behind it."""
    place = program.place(past.line) if past.line is not None else None
    for level in place.levels if place is not None else ():
        for statement in level.block[: level.index]:
            if first_line(statement) <= line <= last_line(statement):
                return statement
    return None


def was_raised_out(facts: Facts, ranks: tuple[int, ...]) -> bool:
    """They did not leave the loop, an exception took them out of it."""
    return not {crash.rank for crash in primary_crashes(facts)}.isdisjoint(ranks)
