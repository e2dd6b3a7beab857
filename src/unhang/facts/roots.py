"""Whether ranks name different roots in one broadcast, reduce, gather or scatter: no record tells the root."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from unhang.evidence.items import SourceFile
from unhang.facts.program import call_name, find_source, parse_program
from unhang.facts.rank_branch import spoken
from unhang.facts.rank_values import rank_values
from unhang.findings import Where

ROOTED = {"broadcast", "reduce", "gather", "scatter", "broadcast_object_list", "gather_object", "scatter_object_list"}
_ROOTS = {"src", "dst", "root", "group_src", "group_dst"}


def rank_dependent_root(where: Where | None, sources: Mapping[str, SourceFile]) -> str | None:
    """``src=int(rank == 0)`` where the call on that line gives each rank another root, as the source spells it."""
    source = find_source(sources, where.file) if where is not None else None
    if source is None or where is None or where.line is None:
        return None
    program = parse_program(source.text)
    place = None if isinstance(program, str) else program.place(where.line)
    if isinstance(program, str) or place is None or not place.levels:
        return None
    for node in ast.walk(place.levels[-1].statement):
        if isinstance(node, ast.Call) and call_name(node) in ROOTED:
            for keyword in node.keywords:
                if keyword.arg in _ROOTS and rank_values(program).value_depends(keyword.value, place.scopes):
                    return f"{keyword.arg}={spoken(keyword.value)}"
    return None
