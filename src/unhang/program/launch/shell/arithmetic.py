"""``$((…))`` of a shell, over whole numbers."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

from unhang.program.launch.shell.state import ShellState

_OPERATIONS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: int(a / b),
    ast.Mod: lambda a, b: a - b * int(a / b),
}
_COMPARED: dict[type, Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_NAME = re.compile(r"\$\{(\w+)\}|\$?\b([A-Za-z_]\w*)")
MAX_INTEGER = 1 << 62


def evaluate_arithmetic(words: str, state: ShellState) -> int | None:
    """The value of ``words``; None where a variable is no number, or an operation none of ours."""

    def value(found: re.Match[str]) -> str:
        known = state.value(found[1] or found[2])
        return known if isinstance(known, str) and known.strip() else "?" if known is not None else "0"

    said = _NAME.sub(value, words.strip()).replace("&&", " and ").replace("||", " or ")
    try:
        number = _of(ast.parse(said, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError, OverflowError):
        return None
    return number if number is None or abs(number) < MAX_INTEGER else None


def _of(node: ast.expr) -> int | None:
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.UnaryOp):
        inner = _of(node.operand)
        if inner is None:
            return None
        return -inner if isinstance(node.op, ast.USub) else int(not inner) if isinstance(node.op, ast.Not) else inner
    if isinstance(node, ast.BoolOp):
        values = [_of(value) for value in node.values]
        if None in values:
            return None
        return int(all(values) if isinstance(node.op, ast.And) else any(values))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = _of(node.left), _of(node.comparators[0])
        compare = _COMPARED.get(type(node.ops[0]))
        return None if left is None or right is None or compare is None else int(compare(left, right))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        left, right = _of(node.left), _of(node.right)
        return None if left is None or right is None else _OPERATIONS[type(node.op)](left, right)
    return None
