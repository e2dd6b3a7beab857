"""Places of a program where the other ranks wait in a barrier while the main process prepares something."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from unhang.evidence.items import SourceFile
from unhang.facts.laggard.main_process_first import is_main_first_name
from unhang.facts.logs.event_timing import is_preparation_function
from unhang.program.syntax.syntax_tree import ParsedFile, call_name, dotted, own_nodes, parse_file

_OURS = "unhang"


@dataclass(frozen=True, slots=True)
class MainProcessFirstBlock:
    """``with NAME():`` at ``line``, around ``work`` (the name of a call that prepares data)."""

    path: str
    line: int
    name: str
    function: str
    work: str


def main_process_first_blocks(source: SourceFile) -> Iterator[MainProcessFirstBlock]:
    """Such places of one file; none for our own guard, which waits on the store."""
    program = parse_file(source.text) if "_first" in source.text else ""
    if isinstance(program, str):
        return
    for scope in program.owners:
        blocks = [node for node in own_nodes(scope) if isinstance(node, ast.With)]
        for node in sorted(blocks, key=lambda block: block.lineno):
            if (found := _block_of(node, program)) is not None:
                name, work = found
                yield MainProcessFirstBlock(source.path, node.lineno, name, getattr(scope, "name", "<module>"), work)


def _block_of(node: ast.With, program: ParsedFile) -> tuple[str, str] | None:
    calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
    name = next(
        (call_name(call) for call in calls if is_main_first_name(call_name(call)) and not _is_ours(call, program)), ""
    )
    inside = [inner for part in node.body for inner in ast.walk(part) if isinstance(inner, ast.Call)]
    work = next((call_name(call) for call in inside if is_preparation_function(call_name(call))), "")
    return (name, work) if name and work else None


def _is_ours(call: ast.Call, program: ParsedFile) -> bool:
    if dotted(call.func).startswith(f"{_OURS}."):
        return True
    imported = (node for node in ast.walk(program.tree) if isinstance(node, ast.ImportFrom))
    return any(
        (node.module or "").split(".")[0] == _OURS
        and call_name(call) in {alias.asname or alias.name for alias in node.names}
        for node in imported
    )
