"""Whether the rank settles how many rounds of a loop a rank makes: in its header, or by a jump that leaves it.

``if step >= n + 40 * (1 - rank): break`` is a bound of the loop like ``range(n + 40 * (1 - rank))``: all of it is known
before the loop begins, and the round is counted. Nobody stands inside a branch on the rank then; ranks make different
numbers of steps. ``if rank == 0 and loss < 0.1: break`` hangs on what the rank finds out: that is no bound.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unhang.knowledge.collectives import source_names
from unhang.program.rank_dependence.rank_values import SURE, rank_values
from unhang.program.rank_dependence.same_on_all_ranks import gone_through, has_equal_rounds, may_differ_by_rank
from unhang.program.syntax.syntax_tree import Loop, ParsedFile, Scope, blocks, call_name, expression_text

_COUNTING = {"range", "trange", "count"}
_ARITHMETIC = {"int", "len", "min", "max", "round", "abs", "divmod", "range", "trange", "islice", "bool"}


@dataclass(frozen=True, slots=True)
class RankBound:
    """What makes the number of rounds depend on the rank."""

    line: int
    """Of the header or of the jump."""
    kind: str
    """``loop`` (its header), ``break``, ``return``, ``exit``."""
    test: str
    """The header or the tests around the jump as the source spells them."""
    sure: bool
    """It was followed to a rank; False when a name only suggests one."""
    depends_on: str
    """``round``: the rank and the number of the round, settled before the loop begins; ``rank``: the rank alone, so it
    leaves in the first round; ``finding``: what the rank finds out in a round."""
    alone: bool
    """Nothing else ends the loop earlier on one rank than on another, as far as its header tells: no data."""

    @property
    def counted(self) -> bool:
        """The rank settles how many rounds it makes."""
        return self.depends_on == "round"


def rank_bounds(program: ParsedFile, loop: Loop, scopes: Sequence[Scope]) -> Iterator[RankBound]:
    """Every such reason of ``loop``, its header first."""
    values = rank_values(program)
    header = loop.test if isinstance(loop, ast.While) else loop.iter
    depends = values.test_depends if isinstance(loop, ast.While) else values.value_depends
    if degree := depends(header, scopes):
        settled = _Rounds(program, loop, scopes).all_settled([header])
        hangs_on = "round" if settled else "finding"
        yield RankBound(loop.lineno, "loop", expression_text(header), degree == SURE, hangs_on, alone=settled)
    same = _same_header(program, loop, scopes)
    for jump, tests in _jumps(loop):
        if degree := max((values.test_depends(test, scopes) for test in tests), default=0):
            test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), list(tests))
            hangs_on = _Rounds(program, loop, scopes).depends_on(tests)
            yield RankBound(jump.lineno, _kind(jump), expression_text(test), degree == SURE, hangs_on, alone=same)


def _same_header(program: ParsedFile, loop: Loop, scopes: Sequence[Scope]) -> bool:
    if isinstance(loop, ast.While):
        return not may_differ_by_rank(program, loop.test, scopes, loop.lineno)
    return has_equal_rounds(loop, scopes)


def _jumps(loop: Loop) -> Iterator[tuple[ast.stmt, tuple[ast.expr, ...]]]:
    """Jumps that leave ``loop`` for good, with the tests inside it that lead there."""
    waiting: list[tuple[ast.stmt, tuple[ast.expr, ...], bool]] = [(child, (), False) for child in loop.body]
    while waiting:
        node, tests, in_other = waiting.pop(0)
        kind = _kind(node)
        if kind and tests and not (kind == "break" and in_other):
            yield node, tests
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for owner, part, block in blocks(node):
            inner = tests
            if isinstance(owner, ast.If):
                inner = (*tests, owner.test if part == "body" else ast.UnaryOp(ast.Not(), owner.test))
            waiting.extend((child, inner, in_other or isinstance(node, Loop)) for child in block)


def _kind(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Break | ast.Return):
        return type(statement).__name__.lower()
    called = statement.value if isinstance(statement, ast.Expr) else None
    return "exit" if isinstance(called, ast.Call) and call_name(called) in source_names("exit") else ""


class _Rounds:
    """What changes in the rounds of one loop, and what only counts them."""

    def __init__(self, program: ParsedFile, loop: Loop, scopes: Sequence[Scope]) -> None:
        self._values, self._scopes = rank_values(program), scopes
        places = (node for node in ast.walk(loop) if isinstance(node, ast.Name | ast.Attribute | ast.Subscript))
        self._changed = {expression_text(node) for node in places if isinstance(node.ctx, ast.Store)}
        self._counters = set(_counters(loop))

    def all_settled(self, tests: Sequence[ast.expr]) -> bool:
        """Each test is made of what was known before the loop began, of the rank, and of the round's number."""
        return all(self._settled(test) for test in tests)

    def depends_on(self, tests: Sequence[ast.expr]) -> str:
        """As :attr:`RankBound.hangs_on` has it."""
        if not self.all_settled(tests):
            return "finding"
        return "round" if self._names_the_round(tests) else "rank"

    def _names_the_round(self, tests: Sequence[ast.expr]) -> bool:
        return any(
            expression_text(node) in self._counters for test in tests for node in ast.walk(test) if _is_place(node)
        )

    def _settled(self, value: ast.expr) -> bool:
        if isinstance(value, ast.Constant):
            return True
        if _is_place(value):
            return self._place(value)
        if isinstance(value, ast.Call):
            return self._call(value)
        return all(self._settled(part) for part in ast.iter_child_nodes(value) if isinstance(part, ast.expr))

    def _place(self, value: ast.expr) -> bool:
        name = expression_text(value)
        if name in self._counters:
            return True
        if name in self._changed:
            return False
        if isinstance(value, ast.Name):
            return name not in ("self", "cls")  # a method may change what is its own
        if self._values.value_depends(value, self._scopes):
            return True
        return all(self._settled(part) for part in ast.iter_child_nodes(value) if isinstance(part, ast.expr))

    def _call(self, call: ast.Call) -> bool:
        if call_name(call) in _ARITHMETIC and not call.keywords:
            return self.all_settled(call.args)
        name = call_name(call)
        return bool(self._values.value_depends(call, self._scopes)) or name == "get_world_size"


def _is_place(node: ast.AST) -> bool:
    return isinstance(node, ast.Name | ast.Attribute | ast.Subscript)


def _counters(loop: Loop) -> Iterator[str]:
    """The number of the round: what a range gives, or what grows by the same in every round."""
    if not isinstance(loop, ast.While) and (counted := _counted_target(loop)) is not None:
        yield counted
    for statement in _always(loop.body):
        match statement:
            case ast.AugAssign(target=target, value=ast.Constant()):
                yield expression_text(target)
            case ast.Assign(targets=[target], value=ast.BinOp(left=left, right=ast.Constant())):
                yield from [expression_text(target)] if expression_text(left) == expression_text(target) else []


def _counted_target(loop: ast.For | ast.AsyncFor) -> str | None:
    over = gone_through(loop)
    name = call_name(over) if isinstance(over, ast.Call) else ""
    target = loop.target
    if name == "enumerate" and isinstance(target, ast.Tuple) and target.elts:
        target = target.elts[0]
    return expression_text(target) if name in _COUNTING or name == "enumerate" else None


def _always(block: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of every round: not those below an ``if``, of another loop, or in a handler."""
    for statement in block:
        yield statement
        if isinstance(statement, ast.With | ast.AsyncWith | ast.Try):
            yield from _always(statement.body)
