"""What a simple test on the rank, or another expression of it, gives for one rank, and which ranks it singles out."""

from __future__ import annotations

import ast
from typing import Any

from unhang.program.syntax.evaluation import UNKNOWN, Evaluation
from unhang.program.syntax.syntax_tree import parse_expression, walk

MAX_RANKS = 4096


def singled_out_ranks(test: str, world_size: int | None) -> frozenset[int]:
    """The ranks for which the parts of the test that speak of the rank come out otherwise than for most; empty when
    they cannot be worked out, or divide the job in halves."""
    if world_size is None or not 2 <= world_size <= MAX_RANKS:
        return frozenset()
    tree = parse_expression(test)
    if tree is None:
        return frozenset()
    leaves = [node for node in walk(tree) if isinstance(node, ast.Compare | ast.Name | ast.Attribute | ast.Call)]
    classes: dict[tuple[object, ...], list[int]] = {}
    for rank in range(world_size):
        answers = tuple(v if isinstance(v := _ForRank(rank, world_size).value(leaf), bool) else None for leaf in leaves)
        classes.setdefault(answers, []).append(rank)
    most = max(classes.values(), key=len)
    few = frozenset(range(world_size)) - set(most)
    return few if len(few) < len(most) else frozenset()


def test_value(test: str, rank: int, world_size: int | None) -> bool | None:
    """What a simple test on the rank gives for ``rank``: comparisons, ``in``, ``not``, ``and``/``or``; else None."""
    tree = parse_expression(test)
    value = _ForRank(rank, world_size).value(tree) if tree is not None else UNKNOWN
    return value if isinstance(value, bool) else None


def number_value(node: ast.expr, rank: int, world_size: int | None) -> int | None:
    """What a simple expression of the rank gives for ``rank``: ``(rank + 1) % world_size``; else None."""
    value = _ForRank(rank, world_size).value(node)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


class _ForRank(Evaluation):
    """Names, attributes and calls that speak of the rank or of the world size have a value; nothing else has one."""

    def __init__(self, rank: int, world: int | None) -> None:
        self.rank, self.world = rank, world

    def value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and not isinstance(node.value, bool | int):
            return UNKNOWN
        return super().value(node)

    def held(self, node: ast.expr) -> Any:
        spelled = (
            ast.unparse(node).lower() if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript) else ""
        )
        if "world" in spelled or "num_processes" in spelled:
            return UNKNOWN if self.world is None else self.world
        if "local" in spelled or "group" in spelled:
            return UNKNOWN
        return self.rank if "rank" in spelled or "process_index" in spelled else UNKNOWN
