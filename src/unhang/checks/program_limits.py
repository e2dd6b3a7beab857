"""Limits a program sets in its own source: ``init_process_group(timeout=timedelta(minutes=30))`` and its kin."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

MAKE_FIRST_GROUP = {"init_process_group", "InitProcessGroupKwargs", "init_distributed"}
MAKE_GROUPS = {"new_group", "init_device_mesh", "split_group", "new_subgroups"}
_UNITS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1, "milliseconds": 0.001, "weeks": 604800}
_ORDER = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")


@dataclass(frozen=True, slots=True)
class LimitInSource:
    """A call that makes a process group. ``seconds``: None where it gives no limit or one that only running tells."""

    call: str
    line: int
    given: bool
    seconds: float | None
    guarded: bool = False
    """Only where there is no group yet: below a test of ``is_initialized``."""


def limits_in(source: str) -> Iterator[LimitInSource]:
    """Calls in ``source`` that make process groups, in order of lines; none where it is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    constants = dict(_constants(tree))
    guarded = {id(inner) for outer in ast.walk(tree) if _asks_for_a_group(outer) for inner in ast.walk(outer)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for node in sorted(calls, key=lambda node: node.lineno):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in MAKE_FIRST_GROUP | MAKE_GROUPS:
            given = next((word.value for word in node.keywords if word.arg == "timeout"), None)
            seconds = _seconds(given, constants)
            yield LimitInSource(name, node.lineno, given is not None, seconds, id(node) in guarded)


def _asks_for_a_group(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and any(
        getattr(inner, "attr", getattr(inner, "id", "")) == "is_initialized" for inner in ast.walk(node.test)
    )


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value


def _seconds(node: ast.expr | None, constants: dict[str, ast.expr], depth: int = 3) -> float | None:
    if isinstance(node, ast.Name) and depth:
        return _seconds(constants.get(node.id), constants, depth - 1)
    if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("timedelta"):
        return None
    amounts = [(_ORDER[at], value) for at, value in enumerate(node.args[: len(_ORDER)])]
    amounts += [(word.arg, word.value) for word in node.keywords if word.arg]
    total = 0.0
    for unit, value in amounts:
        number = _number(value, constants)
        if number is None or unit not in _UNITS:
            return None
        total += number * _UNITS[unit]
    return total


def _number(node: ast.expr | None, constants: dict[str, ast.expr], depth: int = 3) -> float | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.Name) and depth:
        return _number(constants.get(node.id), constants, depth - 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and depth:
        left, right = _number(node.left, constants, depth - 1), _number(node.right, constants, depth - 1)
        return None if left is None or right is None else left * right
    return None
