"""Imports a program goes on without: caught, for another Python or system, or only where the module is there."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from unhang.program.syntax.syntax_tree import blocks, call_name, statements

AnyImport: TypeAlias = "ast.Import | ast.ImportFrom"
_ABSENT_IS_FINE = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
_OF_THE_MACHINE = {"version_info", "hexversion", "python_version", "python_version_tuple", "platform", "__version__"}
"""What a test asks of the interpreter, the system or a library's release, of which the program knows several."""


def import_fallbacks(tree: ast.Module) -> dict[int, tuple[AnyImport, ...] | None]:
    """By the ``id`` of an import: what may stand in for it, or None where nothing has to. Others are needed."""
    found: dict[int, tuple[AnyImport, ...] | None] = {}
    for node in statements(tree):
        if isinstance(node, ast.Try) and any(_survives(handler) for handler in node.handlers):
            tried = _imports(node.body)
            _set(found, tried, None)
            for handler in node.handlers:
                _set(found, _imports(handler.body), tried)
        elif isinstance(node, ast.If) and _of_the_machine(node.test):
            _set(found, _imports(node.body), _imports(node.orelse))
            _set(found, _imports(node.orelse), _imports(node.body))
        elif isinstance(node, ast.If) and _asks_for_a_module(node.test):
            _set(found, (*_imports(node.body), *_imports(node.orelse)), None)
        elif isinstance(node, ast.With) and any(_suppresses(item.context_expr) for item in node.items):
            _set(found, _imports(node.body), None)
    return found


def _set(
    found: dict[int, tuple[AnyImport, ...] | None], imports: Sequence[AnyImport], instead: Sequence[AnyImport] | None
) -> None:
    """Outer statements come first: what stands in for an inner import stands beside what is known already."""
    for one in imports:
        known = found.get(id(one), ())
        found[id(one)] = None if not instead or known is None else (*known, *instead)


def _imports(block: Sequence[ast.stmt]) -> tuple[AnyImport, ...]:
    return tuple(node for node in _inside(block) if isinstance(node, ast.Import | ast.ImportFrom))


def _inside(block: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in block:
        yield statement
        for _, _, inner in blocks(statement):
            yield from _inside(inner)


def _survives(handler: ast.ExceptHandler) -> bool:
    if any(isinstance(statement, ast.Raise) for statement in handler.body):
        return False
    return handler.type is None or bool(_names(handler.type) & _ABSENT_IS_FINE)


def _suppresses(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and call_name(node) == "suppress" and bool(_names(node) & _ABSENT_IS_FINE)


def _of_the_machine(test: ast.expr) -> bool:
    return bool(_names(test) & _OF_THE_MACHINE)


def _asks_for_a_module(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) and call_name(node) == "find_spec" for node in ast.walk(test))


def _names(node: ast.expr) -> set[str]:
    return {getattr(inner, "id", getattr(inner, "attr", "")) for inner in ast.walk(node)}
