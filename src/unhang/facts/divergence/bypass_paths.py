"""What else than the end of its data takes a rank past a loop before the others: a jump, a handler, an early return.

A loop of `range(200)` runs equally often everywhere. A rank that stands behind it while the others are still in it has
left it by a `break`, or went through some round without the collectives of that round. Over a data loader both may be:
fewer batches, or a way around.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from unhang.evidence.items import Frame, SourceFile
from unhang.facts.stacks.rank_cohorts import RankCohort
from unhang.facts.stacks.source_context import until_collected
from unhang.findings import Where
from unhang.knowledge.activities import bare_function
from unhang.knowledge.collectives import source_names
from unhang.program.rank_dependence.same_on_all_ranks import has_equal_rounds, may_differ_by_rank
from unhang.program.rank_dependence.step_loops import step_loops
from unhang.program.rank_dependence.value_for_rank import test_value
from unhang.program.syntax.syntax_tree import (
    LinePosition,
    Loop,
    ParsedFile,
    blocks,
    call_name,
    expression_text,
    find_line,
    last_line,
    own_nodes,
    parsed_files,
)

_TAKES = {"next", "anext"}
_END_OF_DATA = {"StopIteration", "StopAsyncIteration"}
_EXITS = {"exit", "_exit", "quit", "abort"}
_REQUESTS = {"evaluate": "should_evaluate", "_save_checkpoint": "should_save"}
"""Functions of transformers' ``Trainer``, and what of its control a callback sets to have them called."""


@dataclass(frozen=True, slots=True)
class BypassPath:
    """A jump, handler or condition by which a single rank leaves the loop, or skips the collectives of one
    iteration."""

    where: Where
    kind: str
    """``break``, ``return``, ``exit``, ``continue``, ``except``; ``while``: the loop's own condition; ``if``: the call
    stands under it; ``__del__``: the interpreter runs it, where it frees the object."""
    test: str
    """The test it stands under, as the source spells it; empty for a handler."""
    leaves: bool
    """It leads out of the loop for good; False where it leads around the rest of one round."""
    at_the_end: bool = False
    """It asks whether the data have ended: what ``next`` gave, or its ``StopIteration``."""


@dataclass(frozen=True, slots=True)
class BypassPaths:
    """The loops between those who have left and those who are still inside."""

    has_equal_rounds: bool
    """All of them run equally often on every rank, as the source tells."""
    over_data: bool
    """One of them may be shorter because its data are: it is no range, and no ``while`` on something else."""
    last_over_data: bool
    """So of the outermost of them, which those who have left it went out of."""
    loop: Where
    """The header of the outermost of them."""
    ways: tuple[BypassPath, ...]

    @property
    def out(self) -> tuple[BypassPath, ...]:
        """Those that leave the loop."""
        return tuple(way for way in self.ways if way.leaves)

    @property
    def jumps(self) -> tuple[BypassPath, ...]:
        """Those that leave it in the middle, on what one rank finds by itself and is not the end of its data."""
        return tuple(way for way in self.out if way.kind != "while" and not way.at_the_end)

    @property
    def iteration_skips(self) -> tuple[BypassPath, ...]:
        """Those that go around the calls of a round."""
        return tuple(way for way in self.ways if not way.leaves)


def bypass_paths(past: RankCohort, inside: RankCohort, sources: Mapping[str, SourceFile]) -> BypassPaths | None:
    """How ``past`` may have come out before ``inside``; None where no loop with source lies between them."""
    ways: list[BypassPath] = []
    headers: list[Where] = []
    fixed, over_data, last_over_data = True, False, False
    for frame in inside.frames:
        place = find_line(sources, frame.file, frame.line) if not frame.native else None
        if place is None or frame.line is None:
            continue
        program = place.program
        crossed = _crossed(place, past)
        finder = _PathFinder(program, place, frame.line, Where(frame.file, None, frame.function))
        headers += [Where(frame.file, loop.lineno, frame.function) for loop in crossed]
        fixed = fixed and all(has_equal_rounds(loop, place.scopes) for loop in crossed)
        for loop in crossed:
            last_over_data = finder.may_run_out(loop)
            over_data = over_data or last_over_data
        ways += finder.of_loops(crossed) if crossed else () if headers else finder.of_helper()
        if crossed and _is_left(crossed[-1], past):
            break
    taken = tuple(dict.fromkeys(way for way in ways if _may_take(past, way)))
    if not headers:
        return None
    ended = any(way.at_the_end and way.leaves for way in taken)
    return BypassPaths(fixed and not ended, over_data or ended, last_over_data or ended, headers[-1], taken)


def paths_around_call(frames: Sequence[Frame], sources: Mapping[str, SourceFile]) -> tuple[BypassPath, ...]:
    """How a rank may go on without the call at which ``frames`` stand (innermost first): tests that the call stands
    under, and jumps and handlers before it."""
    ways: list[BypassPath] = []
    led_here = until_collected(frames, sources)
    for frame in led_here:
        ways += _requests(bare_function(frame.function), sources)
        place = find_line(sources, frame.file, frame.line) if not frame.native else None
        if place is None or frame.line is None:
            continue
        finder = _PathFinder(place.program, place, frame.line, Where(frame.file, None, frame.function))
        loops = [level.owner for level in place.levels if isinstance(level.owner, Loop) and level.part == "body"]
        jumps = finder.of_loops(loops[::-1]) if loops else finder.of_helper()
        ways += finder.of_blocks()
        ways += (w for w in jumps if w.kind != "except" and not w.leaves and (w.where.line or 0) < frame.line)
    if len(led_here) < len(frames):
        last = led_here[-1]
        ways.append(BypassPath(Where(last.file, last.line, last.function), "__del__", "", leaves=False))
    return tuple(dict.fromkeys(ways))


def _requests(function: str, sources: Mapping[str, SourceFile]) -> Iterator[BypassPath]:
    """Tests under which a callback asks the trainer for it."""
    flag = _REQUESTS.get(function)
    for file, program in parsed_files(sources.values()) if flag else ():
        asked = (one.lineno for one in ast.walk(program.tree) if isinstance(one, ast.Assign) and _sets(one, flag))
        for line in asked:
            if (place := program.place(line)) is not None:
                at = Where(file.path, None, getattr(place.function, "name", "<module>"))
                yield from _PathFinder(program, place, line, at).of_blocks()


def _sets(node: ast.Assign, flag: str | None) -> bool:
    asked = isinstance(node.value, ast.Constant) and node.value.value is True
    return asked and any(isinstance(target, ast.Attribute) and target.attr == flag for target in node.targets)


def _may_take(past: RankCohort, way: BypassPath) -> bool:
    """False where its test asks for the rank and lets none of ``past`` pass."""
    return not way.test or any(test_value(way.test, rank, None) is not False for rank in past.ranks)


def _crossed(place: LinePosition, past: RankCohort) -> list[Loop]:
    """Loops around the line, innermost first, up to the one behind which ``past`` stands."""
    found: list[Loop] = []
    for level in reversed(place.levels):
        if isinstance(level.owner, Loop) and level.part == "body":
            found.append(level.owner)
            if _is_left(level.owner, past):
                break
    return found


def _is_left(loop: Loop, past: RankCohort) -> bool:
    return past.stack_context.after is not None and past.stack_context.after.line == loop.lineno


@dataclass(frozen=True, slots=True)
class _PathFinder:
    program: ParsedFile
    place: LinePosition
    line: int
    at: Where

    def of_loops(self, loops: list[Loop]) -> Iterator[BypassPath]:
        for loop in loops:
            if isinstance(loop, ast.While) and self.ends_alone(loop):
                yield BypassPath(self._where(loop.lineno), "while", expression_text(loop.test), leaves=True)
            for statement in loop.body:
                yield from self._in(statement, None, own_loop=True)

    def of_blocks(self) -> Iterator[BypassPath]:
        """Around the line, the innermost first: an ``if`` whose outcome one rank finds by itself, and handlers."""
        for level in reversed(self.place.levels):
            if isinstance(level.owner, ast.Try) and level.part == "body":
                yield from self._handlers(level.owner)
            if not isinstance(level.owner, ast.If):
                continue
            test = level.owner.test if level.part == "body" else _negated(level.owner.test)
            if may_differ_by_rank(self.program, test, self.place.scopes, level.owner.lineno):
                yield BypassPath(self._where(level.owner.lineno), "if", expression_text(test), leaves=False)

    def may_run_out(self, loop: Loop) -> bool:
        """It may be shorter because its data are: it is no range, no ``while`` on something else, and no ``while True``
        that takes no data and is left by a jump."""
        if has_equal_rounds(loop, self.place.scopes) or self.ends_alone(loop):
            return False
        endless = isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant) and not self._takes_data(loop)
        return not (endless and any(way.leaves for way in self.of_loops([loop])))

    def ends_alone(self, loop: Loop) -> bool:
        """A ``while`` that takes no data and whose condition each rank finds by itself: a clock, a loss of its own."""
        if not isinstance(loop, ast.While) or isinstance(loop.test, ast.Constant) or self._takes_data(loop):
            return False
        return may_differ_by_rank(self.program, loop.test, self.place.scopes, loop.lineno)

    def _takes_data(self, loop: Loop) -> bool:
        known = step_loops(self.program).facts(loop)
        return known is not None and known.iterates_data

    def of_helper(self) -> Iterator[BypassPath]:
        """Returns above the line, of a function that a loop calls: they lead around the rest of the round."""
        body = getattr(self.place.function, "body", [])
        for statement in body if len(self.place.scopes) > 1 else ():
            for way in self._in(statement, None, own_loop=None):
                if way.kind != "return" or (way.where.line or 0) < self.line:
                    yield way

    def _in(self, node: ast.stmt, test: ast.expr | None, *, own_loop: bool | None) -> Iterator[BypassPath]:
        """``own_loop``: jumps are the loop's own; None in a function without a loop that was left."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return
        if isinstance(node, ast.Try):
            yield from self._handlers(node)
        if test is not None:
            yield from self._jump(node, test, own_loop=own_loop)
        inside_other = isinstance(node, Loop)
        for owner, part, block in blocks(node):
            inner = test
            if isinstance(owner, ast.If):
                inner = owner.test if part == "body" else _negated(owner.test)
            elif isinstance(owner, ast.ExceptHandler) and owner.type is not None and _names(owner.type) & _END_OF_DATA:
                inner = owner.type
            for child in block:
                yield from self._in(child, inner, own_loop=False if inside_other and own_loop else own_loop)

    def _jump(self, jump: ast.stmt, test: ast.expr, *, own_loop: bool | None) -> Iterator[BypassPath]:
        kind = _kind(jump)
        if not kind or (kind in ("break", "continue") and not own_loop):
            return
        if kind == "continue" and not self._steps_after(jump.lineno):
            return
        if may_differ_by_rank(self.program, test, self.place.scopes, jump.lineno):
            leaves = kind in ("break", "exit") or (kind == "return" and own_loop is not None)
            yield BypassPath(
                self._where(jump.lineno), kind, expression_text(test), leaves, self._asks_for_the_end(test)
            )

    def _asks_for_the_end(self, test: ast.expr) -> bool:
        given = (node for node in own_nodes(self.place.function) if isinstance(node, ast.Assign))
        taken = {
            name
            for node in given
            if isinstance(node.value, ast.Call) and call_name(node.value) in _TAKES
            for target in node.targets
            for name in _names(target)
        }
        missing = any(isinstance(node, ast.Is) for node in ast.walk(test))  # `if batch is None`
        return missing or bool(_names(test) & (taken | _END_OF_DATA))

    def _steps_after(self, line: int) -> bool:
        """The round still has collectives below ``line``."""
        loop = next(
            (
                level.owner
                for level in reversed(self.place.levels)
                if isinstance(level.owner, Loop) and level.owner.lineno < line
            ),
            None,
        )
        return line < self.line or (loop is not None and any(n > line for n in _step_lines(loop)))

    def _handlers(self, node: ast.Try) -> Iterator[BypassPath]:
        """An exception on one rank skips the rest of the ``try``; a handler that raises or leaves ends the rank."""
        first, last = node.body[0].lineno, last_line(node.body[-1])
        if not first <= self.line <= last and not any(_step_lines(part) for part in node.body):
            return
        for handler in node.handlers:
            if not any(_ends(statement) for statement in handler.body):
                yield BypassPath(self._where(handler.lineno), "except", "", leaves=False)

    def _where(self, line: int) -> Where:
        return Where(self.at.file, line, self.at.function)


def _negated(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.UnaryOp(ast.Not(), test)


def _names(node: ast.expr) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _kind(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Break | ast.Continue | ast.Return):
        return type(statement).__name__.lower()
    called = statement.value if isinstance(statement, ast.Expr) else None
    return "exit" if isinstance(called, ast.Call) and call_name(called) in _EXITS else ""


def _step_lines(node: ast.AST) -> list[int]:
    steps = source_names("step_collective") | source_names("step")
    return [inner.lineno for inner in ast.walk(node) if isinstance(inner, ast.Call) and call_name(inner) in steps]


def _ends(statement: ast.stmt) -> bool:
    """It raises, leaves the program, or jumps, which is a way of its own."""
    if isinstance(statement, ast.Raise):
        return True
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return any(call_name(call) in _EXITS | {"destroy_process_group"} for call in calls)
