"""A loop whose number of rounds the ranks agreed on: a collective went into it, so it cannot differ by the data alone.

``steps = int(all_reduce(counts, MIN))`` before ``for step in range(steps)``: where ranks still run different numbers of
steps, that collective gave them different results.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from unhang.evidence.items import SourceFile
from unhang.program.rank_dependence.step_loops import COLLECTIVE_CALLS
from unhang.program.syntax.syntax_tree import Function, ParsedFile, Scope, call_name, own_nodes, parse_file

_AGREEING = COLLECTIVE_CALLS - {"barrier", "monitored_barrier", "send", "isend", "wait_for_everyone"}
MAX_NAMES = 50


def agreeing_call(source: SourceFile | None, loop_line: int | None) -> int | None:
    """Line of the collective whose result decides how often the loop at ``loop_line`` runs; None where none does."""
    program = parse_file(source.text) if source is not None else ""
    if isinstance(program, str) or loop_line is None:
        return None
    place = program.place(loop_line)
    loop = place.levels[-1].statement if place is not None and place.levels else None
    if place is None or not isinstance(loop, ast.For | ast.While) or loop.lineno != loop_line:
        return None
    decides = loop.iter if isinstance(loop, ast.For) else loop.test
    return agreed_value(program, place.function, decides, before=loop_line)


def agreed_value(program: ParsedFile, scope: Scope, decides: ast.expr, *, before: int) -> int | None:
    """Line of the collective above line ``before`` whose result goes into ``decides``; None where none does."""
    waiting, seen = [decides], set[str]()
    while waiting and len(seen) < MAX_NAMES:
        node = waiting.pop()
        for call in (n for n in ast.walk(node) if isinstance(n, ast.Call)):
            if (line := _collective_in(program, call_name(call))) is not None:
                return line
        for name in {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} - seen:
            seen.add(name)
            for call in _calls_with(scope, name, before):
                return call.lineno
            waiting.extend(_values_of(scope, name, before))
    return None


def _collective_in(program: ParsedFile, function: str) -> int | None:
    """The collective in the only function of that name, whose result it may give back."""
    named = [f for f in program.owners if isinstance(f, Function) and f.name == function]
    if len(named) != 1 or not any(isinstance(n, ast.Return) and n.value is not None for n in own_nodes(named[0])):
        return None
    calls = (n for n in own_nodes(named[0]) if isinstance(n, ast.Call) and call_name(n) in _AGREEING)
    return min((call.lineno for call in calls), default=None)


def _calls_with(scope: Scope, name: str, before: int) -> Iterator[ast.Call]:
    """Collectives that take ``name`` as an argument."""
    calls = (n for n in own_nodes(scope) if isinstance(n, ast.Call) and call_name(n) in _AGREEING)
    for call in calls:
        if call.lineno < before and any(isinstance(arg, ast.Name) and arg.id == name for arg in call.args):
            yield call


def _values_of(scope: Scope, name: str, before: int) -> Iterator[ast.expr]:
    settings = (n for n in own_nodes(scope) if isinstance(n, ast.Assign) and n.lineno < before)
    for setting in settings:
        if any(isinstance(n, ast.Name) and n.id == name for t in setting.targets for n in ast.walk(t)):
            yield setting.value
