"""Clean-up that waits for other ranks, and runs also after an exception of one of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from unhang.program.paths.divergent_paths import ProgramPaths
from unhang.program.syntax.definitions import FunctionDefinition, SourceLine
from unhang.program.syntax.syntax_tree import Function, call_name, dotted, own_nodes, walk

_WAITS = "destroy_process_group"
_ENDS_AT_ONCE = {"_exit", "abort", "_abort_process_group"}


@dataclass(frozen=True, slots=True)
class BlockingCleanup:
    """``how`` it comes to run: ``atexit`` or ``finally``; ``call``: what destroys the process group."""

    at: SourceLine
    how: str
    call: str


def blocking_cleanups(ways: ProgramPaths) -> Iterator[BlockingCleanup]:
    """None where the program ends itself at once after an exception."""
    if any(_takes_exceptions(one) for one in ways.launch):
        return
    waiting = {one for one in ways.flow.calls.defined if any(_destroys_all(call) for call in one.calls)}
    for one in ways.launch:
        for node in own_nodes(one.node):
            for line, how, text in _run_late(ways, one, node, waiting):
                yield BlockingCleanup(one.at(line, text), how, text)


def _run_late(
    ways: ProgramPaths, one: FunctionDefinition, node: ast.AST, waiting: set[FunctionDefinition]
) -> Iterator[tuple[int, str, str]]:
    if isinstance(node, ast.Call) and dotted(node.func) == "atexit.register" and node.args:
        given = node.args[0]
        if dotted(given).rpartition(".")[2] == _WAITS or waiting.intersection(_functions(ways, given, one)):
            yield node.lineno, "atexit", dotted(given)
    elif isinstance(node, Function) and ways.flow.calls.of_node[node] in waiting:
        if any(dotted(how) == "atexit.register" for how in node.decorator_list):
            yield node.lineno, "atexit", node.name
    elif isinstance(node, ast.Try) and not any(_ends_at_once(handler) for handler in node.handlers):
        for call in (inner for part in node.finalbody for inner in walk(part) if isinstance(inner, ast.Call)):
            if _destroys_all(call) or waiting.intersection(ways.flow.calls.called(call, one)):
                yield call.lineno, "finally", dotted(call.func)
                return


def _functions(ways: ProgramPaths, node: ast.expr, one: FunctionDefinition) -> list[FunctionDefinition]:
    return [found for found in ways.flow.calls.referred(node, one) if isinstance(found, FunctionDefinition)]


def _destroys_all(call: ast.Call) -> bool:
    return call_name(call) == _WAITS and not call.args and not call.keywords


def _ends_at_once(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.Call) and call_name(inner) in _ENDS_AT_ONCE for inner in walk(node))


def _takes_exceptions(one: FunctionDefinition) -> bool:
    """It sets ``sys.excepthook``."""
    return any(
        isinstance(node, ast.Assign) and any(dotted(target) == "sys.excepthook" for target in node.targets)
        for node in own_nodes(one.node)
    )
