"""Files that only some ranks write: on another node, or over a slow file system, they are there later or never."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from unhang.program.rank_dependence.rank_branches import rank_branch_at
from unhang.program.syntax.assignments import assigned_values
from unhang.program.syntax.call_graph import CallGraph
from unhang.program.syntax.definitions import FunctionDefinition
from unhang.program.syntax.syntax_tree import call_name, expression_text, own_nodes, parse_expression

WRITES = {
    *("open", "save", "dump", "mkdir", "makedirs", "touch", "write_text", "write_bytes", "to_csv", "symlink", "write"),
    *("save_file", "savez", "save_pretrained", "to_parquet", "to_json", "symlink_to"),
}
_READS = ("'r'", "'rb'")


def is_written_by_some_ranks(path: str, here: FunctionDefinition, calls: CallGraph) -> bool:
    """Whether the file that ``path`` spells in ``here`` is written by the program under a test of the rank, and
    nowhere without one."""
    asked = parse_expression(path)
    names = frozenset(_names(asked, here) if asked is not None else ())
    found = [_is_lone(one, node) for one in calls.defined for node in own_nodes(one.node) if _writes(node, one, names)]
    return bool(names) and bool(found) and all(found)


def _writes(node: ast.AST, here: FunctionDefinition, names: frozenset[str]) -> bool:
    if not isinstance(node, ast.Call) or call_name(node) not in WRITES:
        return False
    given = [*node.args, *(word.value for word in node.keywords)]
    if call_name(node) == "open" and (len(given) < 2 or expression_text(given[1]) in _READS):
        return False
    behind = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    return any(name in names for one in (*given, *behind) for name in _names(one, here))


def _is_lone(one: FunctionDefinition, node: ast.AST) -> bool:
    line = getattr(node, "lineno", 0)
    place = one.program.place(line)
    return place is not None and rank_branch_at(one.program, place, line) is not None


def _names(node: ast.expr, here: FunctionDefinition, deep: int = 2) -> Iterator[str]:
    """What tells the file from others: the texts in its path, and constants of the program."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            last = inner.value.rpartition("/")[2]
            yield from [last] if "." in last.strip(".") else []
        elif isinstance(inner, ast.Name) and inner.id.isupper() and "_" in inner.id.strip("_"):
            yield inner.id
        elif isinstance(inner, ast.Name) and deep:
            for value in assigned_values(here.node, inner.id):
                yield from _names(value, here, deep - 1) if value is not None else ()
