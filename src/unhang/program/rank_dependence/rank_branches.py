"""Whether a line is reached by every rank: branches, early returns, decorators, loops that depend on the rank."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unhang.knowledge.collectives import source_names
from unhang.program.data_flow.rank_names import rank_decorator
from unhang.program.rank_dependence.rank_values import SURE, RankValues, rank_values
from unhang.program.syntax.syntax_tree import (
    LinePosition,
    NestingLevel,
    ParsedFile,
    Scope,
    blocks,
    call_name,
    children,
    expression_text,
    walk,
)


@dataclass(frozen=True, slots=True)
class RankBranch:
    """Why only some ranks reach a line."""

    line: int
    """Line of the ``if``, ``match``, loop or decorator."""
    kind: str
    """``if``, ``else``, ``ternary``, ``and-or``, ``match``; ``return``, ``raise``, ``continue``, ``break``, ``exit``
    (the line comes after one under a test of the rank); ``decorator``; ``loop`` (as often as the rank says)."""
    test: str
    """The test as the source spells it, at most 200 characters."""
    sure: bool
    """The test was followed to a rank; False when a name only suggests one."""


def rank_branch_at(
    program: ParsedFile, place: LinePosition, line: int, *, loops: bool = False, values: RankValues | None = None
) -> RankBranch | None:
    """The innermost reason why only some ranks reach ``line``, or None. ``loops`` counts rank-dependent loops in.

    ``values``: what is known of the whole program; without it the file alone decides.
    """
    values = values or rank_values(program)
    found = _in_expression(values, place, line)
    if found is not None and (loops or found.kind != "loop"):
        return found
    leaves_loop = True
    for level in reversed(place.levels):
        found = _owner(values, level, place.scopes, loops=loops)
        if found := found or _jumped_over(values, level, place.scopes, leaves_loop):
            return found
        if isinstance(level.owner, ast.For | ast.AsyncFor | ast.While) and level.part == "body":
            leaves_loop = False
    decorator = rank_decorator(place.function)
    if decorator is not None:
        return RankBranch(decorator.lineno, "decorator", expression_text(decorator), True)
    return None


def _owner(values: RankValues, level: NestingLevel, scopes: Sequence[Scope], *, loops: bool) -> RankBranch | None:
    owner = level.owner
    if isinstance(owner, ast.If):
        kind = "if" if level.part == "body" else "else"
        return _branch(values, owner.lineno, kind, owner.test, scopes)
    if isinstance(owner, ast.match_case):
        return _case(values, owner, scopes)
    if loops and level.part == "body" and (loop := rank_dependent_loop(values, owner, scopes)):
        return loop
    return None


def _case(values: RankValues, case: ast.match_case, scopes: Sequence[Scope]) -> RankBranch | None:
    for scope in reversed(scopes):
        for node in walk(scope):
            if isinstance(node, ast.Match) and case in node.cases:
                found = _branch(values, node.lineno, "match", node.subject, scopes)
                guard = case.guard
                return found or (_branch(values, guard.lineno, "match", guard, scopes) if guard is not None else None)
    return None


def rank_dependent_loop(values: RankValues, loop: ast.AST, scopes: Sequence[Scope]) -> RankBranch | None:
    """A loop that runs as often as the rank says: its range, its condition, or a ``break`` on the rank."""
    if isinstance(loop, ast.For | ast.AsyncFor):
        if degree := values.value_depends(loop.iter, scopes):
            return RankBranch(loop.lineno, "loop", expression_text(loop.iter), degree == SURE)
    elif isinstance(loop, ast.While):
        if degree := values.test_depends(loop.test, scopes):
            return RankBranch(loop.lineno, "loop", expression_text(loop.test), degree == SURE)
    else:
        return None
    for statement in loop.body:
        for jump, test in _jumps(values, statement, scopes):
            if isinstance(jump, ast.Break | ast.Return):
                return RankBranch(test.line, "loop", test.test, test.sure)
    return None


def _jumped_over(
    values: RankValues, level: NestingLevel, scopes: Sequence[Scope], leaves_loop: bool
) -> RankBranch | None:
    """An earlier statement of the block that sends some ranks elsewhere."""
    for statement in reversed(level.block[: level.index]):
        for jump, test in _jumps(values, statement, scopes):
            if isinstance(jump, ast.Continue | ast.Break) and not leaves_loop:
                continue
            kind = "exit" if isinstance(jump, ast.Expr) else type(jump).__name__.lower()
            asked = f"not ({test.test})" if test.kind == "else" else test.test
            return RankBranch(test.line, kind, asked, test.sure)
    return None


def _jumps(values: RankValues, statement: ast.stmt, scopes: Sequence[Scope]) -> Iterator[tuple[ast.stmt, RankBranch]]:
    """Jumps inside ``statement`` that stand under a test of the rank. Loops and functions keep their own."""
    waiting: list[tuple[ast.stmt, RankBranch | None, bool]] = [(statement, None, False)]
    while waiting:
        node, test, in_loop = waiting.pop()
        if test is not None and _leaves(node, in_loop):
            yield node, test
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        inner_loop = in_loop or isinstance(node, ast.For | ast.AsyncFor | ast.While)
        for owner, part, block in blocks(node):
            inner = test
            if isinstance(owner, ast.If):
                inner = _branch(values, owner.lineno, "if" if part == "body" else "else", owner.test, scopes) or test
            waiting.extend((child, inner, inner_loop) for child in block)


def _leaves(node: ast.stmt, in_loop: bool) -> bool:
    if isinstance(node, ast.Return | ast.Raise):
        return True
    if isinstance(node, ast.Continue | ast.Break):
        return not in_loop
    called = node.value if isinstance(node, ast.Expr) else None
    return isinstance(called, ast.Call) and call_name(called) in source_names("exit")


def _in_expression(values: RankValues, place: LinePosition, line: int) -> RankBranch | None:
    """``f() if rank == 0 else None``, ``rank == 0 and f()``, ``[f() for _ in range(rank)]`` on the line itself."""
    if not place.levels:
        return None
    statement = place.levels[-1].statement
    for node in _expressions(statement, values, place.scopes):
        if isinstance(node, ast.IfExp) and _calls_at((node.body, node.orelse), line):
            found = _branch(values, node.lineno, "ternary", node.test, place.scopes)
        elif isinstance(node, ast.BoolOp) and _calls_at(node.values[1:], line):
            found = _branch(values, node.lineno, "and-or", node.values[0], place.scopes)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp) and _calls_at((node.elt,), line):
            found = _comprehension(values, node, place.scopes)
        else:
            continue
        if found is not None:
            return found
    return None


def _comprehension(
    values: RankValues, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, scopes: Sequence[Scope]
) -> RankBranch | None:
    for generator in node.generators:
        if degree := values.value_depends(generator.iter, scopes):
            return RankBranch(node.lineno, "loop", expression_text(generator.iter), degree == SURE)
        for test in generator.ifs:
            if found := _branch(values, node.lineno, "if", test, scopes):
                return found
    return None


def _expressions(statement: ast.stmt, values: RankValues, scopes: Sequence[Scope]) -> Iterator[ast.AST]:
    """Expressions of the statement itself, not of the blocks inside it, nor what a function of the program is given:
    a rank that stands on the line stands in that function."""
    waiting: list[ast.AST] = [child for child in children(statement) if isinstance(child, ast.expr | ast.withitem)]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.Call) and values.calls_own(node, scopes):
            continue
        waiting.extend(
            child
            for child in children(node)
            if isinstance(child, ast.expr | ast.withitem | ast.keyword | ast.comprehension)
        )


def _calls_at(parts: Sequence[ast.AST], line: int) -> bool:
    calls = (node for part in parts for node in walk(part) if isinstance(node, ast.Call))
    return any(call.lineno <= line <= (call.end_lineno or call.lineno) for call in calls)


def _branch(values: RankValues, line: int, kind: str, test: ast.expr, scopes: Sequence[Scope]) -> RankBranch | None:
    degree = values.test_depends(test, scopes)
    return RankBranch(line, kind, expression_text(test), degree == SURE) if degree else None
