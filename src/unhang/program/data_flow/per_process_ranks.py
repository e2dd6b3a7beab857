"""Whether a list of ranks differs from process to process."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from unhang.knowledge.collectives import lists_own_group
from unhang.program.data_flow.function_steps import LOCAL, NAMED, RANK
from unhang.program.data_flow.rank_dependent_values import RankDependentValues
from unhang.program.syntax.syntax_tree import call_name, dotted, own_nodes

_OWN = frozenset({RANK, LOCAL, NAMED, "rank of a group"})
_MAX_DEPTH = 4


def differs_by_process(node: ast.expr, values: RankDependentValues, deep: int = _MAX_DEPTH) -> bool:
    """Whether ranks that are listed in ``node`` are made of the asking process's own number."""
    for inner in ast.walk(node):
        if not isinstance(inner, ast.Name | ast.Attribute | ast.Call):
            continue
        owner, _, name = dotted(inner.func if isinstance(inner, ast.Call) else inner).rpartition(".")
        if lists_own_group(name, owner.rpartition(".")[2]):
            return True
        if isinstance(inner, ast.Call) and call_name(inner) == "range":
            continue  # its arguments are asked one by one
        if values.of(inner).kinds & _OWN:
            return True
        if (
            isinstance(inner, ast.Name)
            and deep
            and any(differs_by_process(given, values, deep - 1) for given in _given(values.here.node, inner.id))
        ):
            return True
    return False


def _given(scope: ast.AST, name: str) -> Iterator[ast.expr]:
    for node in own_nodes(scope):
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == name for target in node.targets):
            yield node.value
