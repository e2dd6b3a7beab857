"""In which order the calls of a program are run, as far as its source tells. Nothing is run.

A call leads into the functions of the program that it calls or is given, an import into the files that it reads.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from unhang.program.syntax.call_graph import CallGraph
from unhang.program.syntax.definitions import FunctionDefinition
from unhang.program.syntax.syntax_tree import Function, call_name, children

_MAX_DEPTH = 40
"""Calls inside each other that are followed."""
_MAX_TURNS = 200_000


class _Turn(NamedTuple):
    """``number``: of those that ``start`` leads to; ``sides``: tests around, each with the side on which this is."""

    number: int
    start: FunctionDefinition
    here: FunctionDefinition
    sides: frozenset[tuple[ast.AST, str]]


class ExecutionOrder:
    """The turns of all calls that are reached from what is ``entered``, or from a file that no other one reads.

    Two such starts say nothing about each other. What was reached under a test only is gone through again where it is
    reached without.
    """

    def __init__(self, calls: CallGraph, entered: Sequence[str] = ()) -> None:
        self._calls, self._modules = calls, calls.table.modules
        self._first: dict[ast.AST, _Turn] = {}
        self._last: dict[ast.AST, _Turn] = {}
        self._begun: dict[FunctionDefinition, frozenset[tuple[ast.AST, str]]] = {}
        starts = [one for one in calls.defined if isinstance(one.node, ast.Module)]
        imports = ((node, one) for one in (() if entered else starts) for node in one.program.nodes)
        read = {path for node, one in imports for path in self._modules.files_read(node, one.file.path)}
        starts.sort(key=lambda one: one.file.path not in entered if entered else one.file.path in read)
        self._count = 0
        named = [one for one in calls.defined if one.file.path in entered and one.file is not starts[0].file]
        self._named = [one for one in named if len(one.scopes) == 2 and one.owner is None]
        """Of files that arguments name: what is called by a name that only running tells may be any of these."""
        for self._start in starts:
            self._sides: frozenset[tuple[ast.AST, str]] = frozenset()
            self._depth = 0
            with suppress(RecursionError):
                self._enter(self._start)

    def runs_before(self, first: ast.AST, second: ast.AST) -> bool | None:
        """Whether ``first`` is run before ``second`` in a run that comes to both; None where the source leaves that
        open."""
        one, other = self._first.get(first), self._last.get(second)
        if one is None or other is None or one.start is not other.start:
            return None
        sides = dict(other.sides)
        if any(sides.get(test, side) != side for test, side in one.sides):
            return False if one.here is other.here else None
        return one.number < other.number

    def _enter(self, one: FunctionDefinition) -> None:
        known = self._begun.get(one)
        if (known is not None and known <= self._sides) or self._depth > _MAX_DEPTH or self._count > _MAX_TURNS:
            return
        self._begun[one] = self._sides if known is None else known & self._sides
        self._depth += 1
        for statement in one.node.body:
            self._run(statement, one)
        self._depth -= 1

    def _run(self, node: ast.AST, here: FunctionDefinition) -> None:
        """``node``, its parts first; the body of a function waits until it is called."""
        if isinstance(node, Function | ast.Lambda | ast.Name | ast.Constant):
            return
        around = self._sides
        for name, part in ast.iter_fields(node) if isinstance(node, ast.If) else (("test", children(node)),):
            self._sides = around | {(node, name)} if name != "test" else around
            for child in (part,) if isinstance(part, ast.AST) else part:
                self._run(child, here)
        self._sides = around
        if isinstance(node, ast.Call):
            self._count += 1
            turn = self._last[node] = _Turn(self._count, self._start, here, around)
            self._first.setdefault(node, turn)
        if isinstance(node, ast.Call | ast.Import | ast.ImportFrom):
            for target in self._targets(node, here):
                self._enter(target)

    def _targets(self, node: ast.AST, here: FunctionDefinition) -> Iterator[FunctionDefinition]:
        """What is called, what is handed over to be called, and what an import reads."""
        if isinstance(node, ast.Call):
            yield from (*self._calls.called(node, here), *self._calls.given(node, here))
            if isinstance(node.func, ast.Call) and call_name(node.func) == "getattr":
                yield from self._named
            for value in (*node.args, *(word.value for word in node.keywords)):
                yield from self._calls.direct(value, here)
        for path in self._modules.files_read(node, here.file.path):
            yield self._calls.of_node[self._modules.scopes[path].tree]
