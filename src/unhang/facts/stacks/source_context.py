"""Where a stack stands in the user's program: in the training loop, past it, under a test of the rank, in a handler.

Decided from the source around the frames, which is evidence itself; it is parsed and never run. Without source there
is no answer.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from unhang.evidence.items import Frame, SourceFile
from unhang.facts.model import CodeContext
from unhang.findings import Where
from unhang.knowledge.activities import bare_function
from unhang.program.rank_dependence.rank_branches import RankBranch, rank_branch_at
from unhang.program.rank_dependence.step_loops import LoopPurpose, StepLoops, step_loops
from unhang.program.syntax.syntax_tree import (
    LinePosition,
    NestingLevel,
    ParsedFile,
    call_name,
    expression_text,
    find_line,
    find_source,
    names_in,
    parse_file,
)

_WAITS = {"sleep", "wait", "pause"}
_IDLE_CALLS = _WAITS | {"print", "debug", "info", "warning", "error", "log", "flush"}
_CLOCKS = {"time", "monotonic", "perf_counter", "min", "max", "float", "int"}
"""What they answer makes nobody wait."""
_NAMELESS = ("<module>", "<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")


@dataclass(frozen=True, slots=True)
class PollLoop:
    """A loop around it that only asks and waits, whatever it counts or prints: nothing it does itself ends it."""

    line: int
    asks: str
    """As the source spells it."""


@dataclass(frozen=True, slots=True)
class RetryLoop:
    """What a loop around it tries again and again: its ``except`` ends nothing."""

    line: int
    tries: str
    """As the source spells it."""
    handler: int
    caught: str
    pause: str
    """How long the line itself waits before the next try."""


@dataclass(frozen=True, slots=True)
class StackContext:
    """Where one line stands in its own function; or a whole stack: the innermost user frame, seen with its callers."""

    context: CodeContext
    where: Where | None = None
    """Of a stack, the frame that decided: its line stands in the branch, the handler or the loop, or after the loop."""
    branch: RankBranch | None = None
    """Why only some ranks reach the line."""
    tried_again: RetryLoop | None = None
    polled: PollLoop | None = None
    """Of a stack, the innermost frame's."""
    loop: LoopPurpose | None = None
    """The loop of steps around it, else the innermost loop."""
    after: LoopPurpose | None = None
    """The loop of steps that has ended before it."""


def line_context(source: SourceFile, line: int, *, function: str = "") -> StackContext:
    """Where ``line`` stands. ``function`` (as the frame spells it) guards against source that is not what ran."""
    return _line_context(source.text, line, function)


@lru_cache(maxsize=4096)
def _line_context(text: str, line: int, function: str) -> StackContext:
    """Many ranks stand on the same lines: answers are kept."""
    placed = _placed(text, line, function)
    if placed is None:
        return StackContext(CodeContext.NO_SOURCE)
    program, place = placed
    branch = rank_branch_at(program, place, line)
    loops = step_loops(program)
    handler, tried_again = _handler(place, loops)
    around, ended = loops.nearest(place)
    loop = around or next(loops.enclosing(place), None)
    if handler is not None and (branch is None or branch.line <= handler):
        context = CodeContext.EXCEPT_HANDLER
    elif branch is not None:
        context = CodeContext.RANK_BRANCH
    elif ended is not None and (around is None or ended.line > around.line):
        context = CodeContext.AFTER_LOOP
    elif loop is not None:
        context = CodeContext.INSIDE_LOOP
    else:
        context = CodeContext.PLAIN
    return StackContext(context, None, branch, tried_again, _polled(place), loop, ended)


def is_rank_conditional(source: SourceFile, line: int, *, function: str = "", loops: bool = False) -> RankBranch | None:
    """Why only some ranks reach ``line``, or None when all do or nothing can be said.

    With ``loops`` a loop that runs as often as the rank says counts too (kind ``loop``).
    """
    placed = _placed(source.text, line, function)
    return None if placed is None else rank_branch_at(placed[0], placed[1], line, loops=loops)


def stack_context(frames: Sequence[Frame], sources: Mapping[str, SourceFile]) -> StackContext:
    """Where a stack stands (``frames`` innermost first; libraries' frames without source do not count).

    A branch or handler of any frame goes before loops, the innermost first: an evaluation loop called under
    ``if rank == 0`` stands in the branch. A loop of steps goes before any other loop.
    """
    seen: list[StackContext] = []
    for frame in until_collected(frames, sources):
        if frame.native or frame.line is None:
            continue
        source = find_source(sources, frame.file)
        context = line_context(source, frame.line, function=frame.function) if source is not None else None
        if context is None or context.context is CodeContext.NO_SOURCE:
            continue
        seen.append(replace(context, where=Where(frame.file, frame.line, frame.function)))
    if not seen:
        return StackContext(CodeContext.NO_SOURCE)
    decides = _deciding(seen)
    return replace(
        decides,
        branch=next((one.branch for one in seen if one.branch), None),
        tried_again=next((one.tried_again for one in seen if one.tried_again), None),
        polled=seen[0].polled,
        loop=decides.loop or _first_loop(seen),
        after=decides.after or next((one.after for one in seen if one.after), None),
    )


def until_collected(frames: Sequence[Frame], sources: Mapping[str, SourceFile]) -> Sequence[Frame]:
    """``frames`` up to a ``__del__`` that the garbage collector runs, since it comes in any line; all where there is
    none, or where the program's own line may have let go of the object."""
    for at, frame in enumerate(frames[:-1], 1):
        if bare_function(frame.function) == "__del__":
            place = find_line(sources, frames[at].file, frames[at].line)
            frees = place.levels[-1].statement if place is not None and place.levels else None
            return frames if isinstance(frees, ast.Assign | ast.Delete | ast.Return) else frames[:at]
    return frames


def _deciding(seen: Sequence[StackContext]) -> StackContext:
    for one in seen:
        if one.context in (CodeContext.RANK_BRANCH, CodeContext.EXCEPT_HANDLER):
            return one
    for one in seen:
        if one.context is CodeContext.AFTER_LOOP:
            return one
        if one.loop is not None and one.loop.makes_steps:
            return replace(one, context=CodeContext.INSIDE_LOOP)
    inside = next((one for one in seen if one.loop is not None), None)
    return replace(inside or seen[0], context=CodeContext.INSIDE_LOOP if inside is not None else CodeContext.PLAIN)


def _first_loop(seen: Sequence[StackContext]) -> LoopPurpose | None:
    loops = [one.loop for one in seen if one.loop is not None]
    return next((loop for loop in loops if loop.makes_steps), loops[0] if loops else None)


def _handler(place: LinePosition, loops: StepLoops) -> tuple[int | None, RetryLoop | None]:
    """(line of the innermost handler around the line that ends what was tried, a ``try`` that is repeated)."""
    tried_again = None
    for depth in range(len(place.levels) - 1, -1, -1):
        owner = place.levels[depth].owner
        if not isinstance(owner, ast.ExceptHandler):
            continue
        if not _goes_round(place, depth, loops):
            return owner.lineno, tried_again
        tried = place.levels[depth - 1].statement
        tried_again = tried_again or (_retry(place, tried, owner) if isinstance(tried, ast.Try) else None)
    return None, tried_again


def _retry(place: LinePosition, tried: ast.Try, handler: ast.ExceptHandler) -> RetryLoop:
    first, sleeps = tried.body[0], getattr(place.statement, "value", None)
    tries = first.items[0].context_expr if isinstance(first, ast.With) else getattr(first, "value", None) or first
    spelled = expression_text(tries.func) + "(…)" if isinstance(tries, ast.Call) else expression_text(tries)[:80]
    caught = expression_text(handler.type) if handler.type is not None else ""
    waits = sleeps.args[:1] if isinstance(sleeps, ast.Call) and call_name(sleeps) in _WAITS else []
    return RetryLoop(first.lineno, spelled, handler.lineno, caught, "".join(map(expression_text, waits)))


def _ends_when_done(level: NestingLevel) -> bool:
    """What is tried leaves the loop as soon as it succeeds: only its failures go round."""
    tried = level.statement
    last = (tried.orelse or tried.body)[-1] if isinstance(tried, ast.Try) else None
    while isinstance(last, ast.With):
        last = last.body[-1]
    return any(isinstance(one, ast.Return | ast.Break) for one in (last, *level.block[level.index + 1 :]))


def _polled(place: LinePosition) -> PollLoop | None:
    around = (loop for level in reversed(place.levels) for loop in (level.statement, level.owner))
    return next((poll for loop in around if isinstance(loop, ast.For | ast.While) and (poll := _poll(loop))), None)


def _poll(loop: ast.For | ast.While) -> PollLoop | None:
    """`while not ready(): sleep(1)`; `while True: …` and `for _ in range(60): …` with `if ready(): break` in them."""
    leaves = [one.test for one in loop.body if isinstance(one, ast.If) and _leaves(one)]
    tests = [loop.test, *leaves] if isinstance(loop, ast.While) else leaves
    answers = [one for one in loop.body if isinstance(one, ast.Assign)]
    named = (one.value for test in tests for one in answers if names_in(one.targets[0]) & names_in(test))
    waits = any(isinstance(one, ast.Call) and call_name(one) in _WAITS for one in ast.walk(loop))
    if not waits and not all(isinstance(one, ast.Pass) for one in loop.body):
        return None
    for asks in (*tests, *named):
        if _calls(asks) and all(_is_idle(one, asks) for one in loop.body):
            bare = asks.operand if isinstance(asks, ast.UnaryOp) else asks
            return PollLoop(loop.lineno, expression_text(bare)[:120])
    return None


def _leaves(branch: ast.If) -> bool:
    return any(isinstance(node, ast.Break | ast.Return) for node in ast.walk(branch))


def _calls(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Call) and call_name(one) not in _CLOCKS for one in ast.walk(node))


def _is_idle(statement: ast.stmt, asked: ast.expr) -> bool:
    """It waits, counts, prints, leaves the loop, or gives the answer a name."""
    if isinstance(statement, ast.If):
        return all(_is_idle(one, asked) for one in (*statement.body, *statement.orelse))
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call) and call_name(statement.value) in _IDLE_CALLS
    if isinstance(statement, ast.Assign | ast.AugAssign):
        return statement.value is asked or not _calls(statement.value)
    return isinstance(statement, ast.Pass | ast.Break | ast.Continue | ast.Return | ast.Raise)


def _goes_round(place: LinePosition, depth: int, loops: StepLoops) -> bool:
    """The handler at ``depth`` stands in a loop that tries again, and nothing below the line leaves that loop. A step
    that an exception cut short is no such thing: its collectives are missing. ``send`` and ``recv`` of a connection,
    which read like collectives, make no step where the loop ends with what succeeds."""
    around = next(
        (
            level.owner
            for level in reversed(place.levels[:depth])
            if isinstance(level.owner, ast.For | ast.AsyncFor | ast.While) and level.part == "body"
        ),
        None,
    )
    known = loops.facts(around) if around is not None else None
    if known is None or known.trains or (known.makes_steps and not _ends_when_done(place.levels[depth - 1])):
        return False
    to_come = (statement for level in place.levels[depth:] for statement in level.block[level.index :])
    return not any(isinstance(statement, ast.Raise | ast.Return | ast.Break) for statement in to_come)


def _placed(text: str, line: int, function: str) -> tuple[ParsedFile, LinePosition] | None:
    """None where the source cannot be read, or is not of the version that ran."""
    program = parse_file(text)
    place = program.place(line) if isinstance(program, ParsedFile) else None
    if place is None:
        return None
    name = bare_function(function)
    if name and name not in _NAMELESS and not _names(place, name):
        return None
    if name == "<module>" and len(place.scopes) > 1:
        return None
    return place.program, place


def _names(place: LinePosition, name: str) -> bool:
    """``name`` is a function or class around the line."""
    if any(getattr(scope, "name", "") == name for scope in place.scopes):
        return True
    return any(isinstance(level.statement, ast.ClassDef) and level.statement.name == name for level in place.levels)
