"""Find the line of the program that printed a line of the log, by the constant parts of its text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from unhang.evidence.items import SourceFile
from unhang.findings import Where
from unhang.knowledge.thresholds import whole_threshold
from unhang.program.syntax.syntax_tree import call_name, own_nodes, parse_file

# Fewer constant characters than this would match too many lines.
MIN_CONSTANT = whole_threshold("print_statements.min_constant")
_PRINTERS = {"print", "info", "warning", "error", "debug", "log", "write", "critical", "echo"}


def find_print_statement(text: str, sources: Mapping[str, SourceFile]) -> Where | None:
    """The only call that can have printed ``text``; None when no call or several can."""
    found = [
        Where(path, line, function)
        for path, source in sources.items()
        for line, function, pattern in _printers(source)
        if pattern.search(text)
    ]
    return found[0] if len(found) == 1 else None


def _printers(source: SourceFile) -> Iterator[tuple[int, str, re.Pattern[str]]]:
    program = parse_file(source.text)
    if isinstance(program, str):
        return
    for scope in program.owners:
        for node in own_nodes(scope):
            if not isinstance(node, ast.Call) or not node.args or call_name(node) not in _PRINTERS:
                continue
            pattern = _pattern(node.args[0])
            if pattern is not None:
                yield node.lineno, getattr(scope, "name", "<module>"), pattern


def _pattern(argument: ast.expr) -> re.Pattern[str] | None:
    """A pattern of the constant parts of a text, anything between them."""
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        parts = re.split(r"%[-\d.]*[sdfgir]|\{[^}]*\}", argument.value)
    elif isinstance(argument, ast.JoinedStr):
        parts = [v.value if isinstance(v, ast.Constant) and isinstance(v.value, str) else "\0" for v in argument.values]
        parts = "".join(parts).split("\0")
    else:
        return None
    if sum(len(part.strip()) for part in parts) < MIN_CONSTANT:
        return None
    return re.compile(r".{0,200}?".join(re.escape(part) for part in parts))
