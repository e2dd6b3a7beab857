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
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, RecursionError, MemoryError, OverflowError):
        return None
    return number if abs(number) < MAX_INTEGER else None


def _of(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return int(number)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_of(inner)
        case ast.BinOp(left=left, op=kind, right=right):
            return int(_OPERATIONS[type(kind)](_of(left), _of(right)))
        case ast.Compare(left=left, ops=[kind], comparators=[right]):
            return int(_OPERATIONS[type(kind)](_of(left), _of(right)))
        case ast.BoolOp(op=ast.And(), values=values):
            return int(all(map(_of, values)))
        case ast.BoolOp(values=values):
            return int(any(map(_of, values)))
    raise ValueError(node)
