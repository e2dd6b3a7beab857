"""What an expression of the program comes to, as far as that is known: constants, comparisons, arithmetic, choices."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, ClassVar

from unhang.program.syntax.syntax_tree import call_name


class UnknownValue:
    """A value that only running tells."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = UnknownValue()
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    one.__name__: one for one in (bool, len, int, str, float, max, min, abs)
}


class Evaluation:
    """Works expressions out. What names, attributes, subscripts and calls hold, those derived from it know."""

    arithmetic: ClassVar = _ARITHMETIC
    operands: ClassVar[Any] = int | float | timedelta
    """What it calculates with."""

    def held(self, node: ast.expr) -> Any:
        """What ``node``, a name, attribute, subscript or call, holds; UNKNOWN where that is not known."""
        return self.called(node) if isinstance(node, ast.Call) else UNKNOWN

    def truth(self, node: ast.expr) -> bool | None:
        """Whether ``node`` holds; None where that is not known."""
        if isinstance(node, ast.BoolOp):
            each = [self.truth(one) for one in node.values]
            decides = isinstance(node.op, ast.Or)
            return decides if decides in each else None if None in each else not decides
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.truth(node.operand)
            return None if inner is None else not inner
        value = self.value(node)
        return None if value is UNKNOWN else bool(value)

    def value(self, node: ast.expr) -> Any:
        """The value of ``node``, or UNKNOWN."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            each = [self.value(one) for one in node.elts]
            return UNKNOWN if any(one is UNKNOWN for one in each) else each
        if isinstance(node, ast.Dict):
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
            known = len(keys) == len(node.keys)
            return dict(zip(keys, map(self.value, node.values), strict=True)) if known else UNKNOWN
        if isinstance(node, ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
            truth = self.truth(node)
            return UNKNOWN if truth is None else truth
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self.value(node.operand)
            return -inner if isinstance(inner, int | float) else UNKNOWN
        if isinstance(node, ast.IfExp):
            truth = self.truth(node.test)
            return UNKNOWN if truth is None else self.value(node.body if truth else node.orelse)
        if isinstance(node, ast.Compare):
            return self._compared(node)
        return self._calculated(node) if isinstance(node, ast.BinOp) else self.held(node)

    def called(self, node: ast.Call) -> Any:
        """What a built-in function gives for what is known."""
        does = _FUNCTIONS.get(call_name(node)) if isinstance(node.func, ast.Name) and not node.keywords else None
        each = [self.value(one) for one in node.args] if does is not None else []
        if does is None or any(one is UNKNOWN for one in each):
            return UNKNOWN
        try:
            return does(*each)
        except (TypeError, ValueError):
            return UNKNOWN

    def _compared(self, node: ast.Compare) -> Any:
        left = self.value(node.left)
        for does, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node)
            if left is UNKNOWN or right is UNKNOWN:
                return UNKNOWN
            if isinstance(does, ast.Is | ast.IsNot) and not (left is None or right is None or right in (True, False)):
                return UNKNOWN
            try:
                if not _COMPARE[type(does)](left, right):
                    return False
            except TypeError:
                return UNKNOWN
            left = right
        return True

    def _calculated(self, node: ast.BinOp) -> Any:
        left, right, does = self.value(node.left), self.value(node.right), self.arithmetic.get(type(node.op))
        if does is None or not all(isinstance(one, self.operands) for one in (left, right)):
            return UNKNOWN
        try:
            return does(left, right)
        except (TypeError, ArithmeticError):
            return UNKNOWN
