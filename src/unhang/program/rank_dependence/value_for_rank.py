"""What a simple test on the rank, or another expression of it, gives for one rank, and which ranks it singles out."""

from __future__ import annotations

import ast

MAX_RANKS = 4096


def singled_out_ranks(test: str, world_size: int | None) -> frozenset[int]:
    """The ranks for which the parts of the test that speak of the rank come out otherwise than for most; empty when
    they cannot be worked out, or divide the job in halves."""
    if world_size is None or not 2 <= world_size <= MAX_RANKS:
        return frozenset()
    try:
        tree = ast.parse(test.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    leaves = [node for node in ast.walk(tree) if isinstance(node, ast.Compare | ast.Name | ast.Attribute | ast.Call)]
    classes: dict[tuple[object, ...], list[int]] = {}
    for rank in range(world_size):
        answers = tuple(v if isinstance(v := _value(leaf, rank, world_size), bool) else None for leaf in leaves)
        classes.setdefault(answers, []).append(rank)
    most = max(classes.values(), key=len)
    few = frozenset(range(world_size)) - set(most)
    return few if len(few) < len(most) else frozenset()


def test_value(test: str, rank: int, world_size: int | None) -> bool | None:
    """What a simple test on the rank gives for ``rank``: comparisons, ``in``, ``not``, ``and``/``or``; else None."""
    try:
        tree = ast.parse(test.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    value = _value(tree, rank, world_size)
    return value if isinstance(value, bool) else None


def number_value(node: ast.expr, rank: int, world_size: int | None) -> int | None:
    """What a simple expression of the rank gives for ``rank``: ``(rank + 1) % world_size``; else None."""
    value = _value(node, rank, world_size)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _value(node: ast.expr, rank: int, world: int | None) -> bool | int | list[int] | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, bool | int) else None
    if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        return _named(node, rank, world)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        items = [_value(item, rank, world) for item in node.elts]
        return [i for i in items if isinstance(i, int)] if all(isinstance(i, int) for i in items) else None
    if isinstance(node, ast.BoolOp):
        return _joined(node, rank, world)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _value(node.operand, rank, world)
        return None if inner is None else not inner
    if isinstance(node, ast.BinOp):
        return _arithmetic(node, rank, world)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compared(node, rank, world)
    return None


def _named(node: ast.expr, rank: int, world: int | None) -> int | None:
    """A name, attribute or call that speaks of the rank or of the world size."""
    spelled = ast.unparse(node).lower()
    if "world" in spelled or "num_processes" in spelled:
        return world
    if "local" in spelled or "group" in spelled:
        return None
    return rank if "rank" in spelled or "process_index" in spelled else None


def _joined(node: ast.BoolOp, rank: int, world: int | None) -> bool | None:
    values = [_value(value, rank, world) for value in node.values]
    known = [bool(v) for v in values if v is not None]
    if isinstance(node.op, ast.And):
        return False if False in known else True if len(known) == len(values) else None
    return True if True in known else False if len(known) == len(values) else None


def _arithmetic(node: ast.BinOp, rank: int, world: int | None) -> int | None:
    left, right = _value(node.left, rank, world), _value(node.right, rank, world)
    if not isinstance(left, int) or not isinstance(right, int):
        return None
    if isinstance(node.op, ast.Add):
        return left + right
    if isinstance(node.op, ast.Sub):
        return left - right
    if isinstance(node.op, ast.Mod) and right:
        return left % right
    if isinstance(node.op, ast.FloorDiv) and right:
        return left // right
    return None


def _compared(node: ast.Compare, rank: int, world: int | None) -> bool | None:
    left, right = _value(node.left, rank, world), _value(node.comparators[0], rank, world)
    if left is None or right is None or isinstance(left, list):
        return None
    (operator,) = node.ops
    if isinstance(right, list):
        if isinstance(operator, ast.In):
            return left in right
        return left not in right if isinstance(operator, ast.NotIn) else None
    results = {
        ast.Eq: left == right,
        ast.NotEq: left != right,
        ast.Lt: left < right,
        ast.LtE: left <= right,
        ast.Gt: left > right,
        ast.GtE: left >= right,
    }
    return results.get(type(operator))
