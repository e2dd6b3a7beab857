"""What a comparison with the rank, or with the number of ranks, says in a job of several ranks."""

from __future__ import annotations

import ast
from collections.abc import Mapping


def rank_test_result(operator: ast.cmpop, right: ast.expr, number: int | None) -> bool | None:
    """What a test of the rank says on every rank of a job: ``rank == "cpu"``, ``rank == -1``, ``rank is None``."""
    nothing = isinstance(right, ast.Constant) and (right.value is None or isinstance(right.value, str))
    if nothing or number == -1:
        same = isinstance(operator, ast.Eq | ast.Is)
        if same or isinstance(operator, ast.NotEq | ast.IsNot):
            return not same
        return isinstance(operator, ast.Gt | ast.GtE) if number == -1 else None
    if number == 0 and isinstance(operator, ast.GtE | ast.Lt):
        return isinstance(operator, ast.GtE)
    return None


def selects_rank_zero(operator: ast.cmpop, right: ast.expr, number: int | None) -> bool | None:
    """Whether ``rank OPERATOR right`` holds on rank 0 only (True), on all others (False), or neither (None)."""
    if isinstance(operator, ast.In | ast.NotIn) and isinstance(right, ast.List | ast.Tuple | ast.Set):
        numbers = {integer_literal(one) for one in right.elts}
        return isinstance(operator, ast.In) if numbers <= {0, -1} and 0 in numbers else None
    if number == 0 and isinstance(operator, ast.Eq | ast.LtE | ast.NotEq | ast.Gt):
        return isinstance(operator, ast.Eq | ast.LtE)
    if number == 1 and isinstance(operator, ast.Lt | ast.GtE):
        return isinstance(operator, ast.Lt)
    return None


def world_size_test_result(operator: ast.cmpop, number: int) -> bool | None:
    """What a test of the number of ranks says where there are several."""
    if number > 1 and not (number == 2 and isinstance(operator, ast.GtE | ast.Lt)):
        return None
    truths: Mapping[type[ast.cmpop], bool] = {ast.Gt: True, ast.GtE: True, ast.NotEq: True}
    return truths.get(type(operator), False)


def integer_literal(node: ast.expr) -> int | None:
    """The whole number that is written there."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -node.operand.value if isinstance(node.operand.value, int) else None
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
