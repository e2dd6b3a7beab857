"""Whom a blocking send or receive waits for, as its own line spells it: Gloo records no partner.

``dist.recv(x, src=rank - 1)`` on rank 3 waits for rank 2. Only simple expressions of the rank and the world size are
worked out; anything else stays open.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from unhang.evidence.items import SourceFile
from unhang.facts.collective_operations import POINT_TO_POINT
from unhang.findings import Where
from unhang.program.rank_dependence.value_for_rank import number_value
from unhang.program.syntax.syntax_tree import call_name, find_line


def partner_on_line(
    where: Where | None, operation: str, rank: int, world_size: int | None, sources: Mapping[str, SourceFile]
) -> int | None:
    """Global rank of the partner of the one ``send`` or ``recv`` on that line; None when it is unknown."""
    place = find_line(sources, where.file, where.line) if where is not None else None
    if where is None or where.line is None or place is None or not place.levels:
        return None
    calls = [
        node
        for node in ast.walk(place.levels[-1].statement)
        if isinstance(node, ast.Call)
        and call_name(node).lstrip("i") == operation.lstrip("i")
        and node.lineno <= where.line <= (node.end_lineno or node.lineno)
    ]
    if len(calls) != 1 or operation not in POINT_TO_POINT:
        return None
    partner = _peer(calls[0])
    value = number_value(partner, rank, world_size) if partner is not None else None
    return value if value is not None and value >= 0 and (world_size is None or value < world_size) else None


def _peer(call: ast.Call) -> ast.expr | None:
    if any(keyword.arg in ("group", "group_dst", "group_src") for keyword in call.keywords):
        return None
    for keyword in call.keywords:
        if keyword.arg in ("src", "dst"):
            return keyword.value
    return call.args[1] if len(call.args) == 2 else None
