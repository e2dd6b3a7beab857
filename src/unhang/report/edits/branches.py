"""A collective that leaves the ``if`` on the rank it stands in."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from unhang.knowledge.collectives import collectives_by_name, source_names
from unhang.knowledge.edits import EditRow
from unhang.program.syntax.source_text import Replacement, SourceText, calls_named
from unhang.program.syntax.syntax_tree import ParsedFile, call_name, dotted, names_in

_JUMPS = (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await)


def move_out(file: SourceText, program: ParsedFile, line: int, row: EditRow) -> tuple[Replacement, ...]:
    """Before or behind the ``if``, or in its place where it held nothing else.

    Empty where the call stands in its middle, needs what it makes there, or the test asks for more than the rank.
    """
    place = program.place(line)
    if place is None or not place.levels:
        return ()
    level = place.levels[-1]
    around, block, moved = level.owner, level.block, level.statement
    if not isinstance(around, ast.If) or level.part != "body" or str(around.lineno) != row.name:
        return ()
    others = [one for one in block if one is not moved]
    if not (_is_simple(file, around) and _calls_one(moved, row.calls) and _is_free(moved, others)):
        return ()
    before = block[level.index - 1].end_lineno if level.index else around.test.end_lineno
    first, last = (before or line) + 1, moved.end_lineno or line
    inner, outer = (file.lines[one.lineno - 1][: one.col_offset] for one in (moved, around))
    lines = file.lines[first - 1 : last]
    if not all(text.startswith(inner) or not text.strip() or text.lstrip()[0] == "#" for text in lines):
        return ()
    out = "".join(outer + text.removeprefix(inner) if text.strip() else text for text in lines)
    gone = Replacement(file.start_of(first), file.start_of(last + 1), "")
    head = file.start_of(around.lineno)
    if not others:
        return (Replacement(head, file.start_of(last + 1), out),) if _asks_only(around.test) else ()
    if moved is block[0]:
        return (Replacement(head, head, out), gone)
    return (Replacement(gone.start, gone.end, out),) if moved is block[-1] else ()


def _is_simple(file: SourceText, around: ast.If) -> bool:
    """``if`` on a line of its own, with one test and no other arm."""
    head = file.text[file.start_of(around.lineno) : file.span(around.test)[0]]
    one_test = not isinstance(around.test, ast.BoolOp | ast.NamedExpr) and not around.orelse
    return one_test and head.replace("(", " ").split() == ["if"] and around.body[0].lineno > around.lineno


def _calls_one(moved: ast.stmt, names: Sequence[str]) -> bool:
    """The statement is one call that every rank must make, on lines without text over several of them."""
    called = moved.value if isinstance(moved, ast.Expr | ast.Assign) else None
    if not isinstance(called, ast.Call) or not any(calls_named([called], names)):
        return False
    rows, owner = collectives_by_name().get(call_name(called), ()), dotted(called.func).rpartition(".")[0]
    long_text = any(isinstance(one, ast.Constant) and one.lineno != one.end_lineno for one in ast.walk(called))
    return not long_text and any(not one.needs and (not one.of or owner in one.of) for one in rows)


def _is_free(moved: ast.stmt, others: Sequence[ast.stmt]) -> bool:
    """None of the ``others`` makes what it uses, may leave before it, or stands on its lines."""
    inside = [node for one in others for node in ast.walk(one)]
    made = {node.id for node in inside if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    apart = all(one.lineno > (moved.end_lineno or 0) or (one.end_lineno or 0) < moved.lineno for one in others)
    return apart and not made & names_in(moved) and not any(isinstance(node, _JUMPS) for node in inside)


def _asks_only(test: ast.expr) -> bool:
    """Nothing is done by asking it: what is called only tells the rank."""
    calls = (node for node in ast.walk(test) if isinstance(node, ast.Call))
    return all(call_name(call) in source_names("rank_call") for call in calls)
