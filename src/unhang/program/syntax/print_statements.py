"""Find the line of the program that printed a line of the log, by the constant parts of its text."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import lru_cache

from unhang.evidence.items import SourceFile
from unhang.findings import Where
from unhang.knowledge.thresholds import whole_threshold
from unhang.program.syntax.syntax_tree import call_name, own_nodes, parse_file

# Fewer constant characters than this would match too many lines.
MIN_CONSTANT = whole_threshold("print_statements.min_constant")
_SPEAKER = re.compile(r"^\W*rank\W*$", re.IGNORECASE)
_PRINTERS = {"exception", "print", "info", "warning", "error", "debug", "log", "write", "critical", "echo"}


def find_print_statement(text: str, sources: Mapping[str, SourceFile]) -> Where | None:
    """The only call that can have printed ``text``; None when no call or several can."""
    found = [
        Where(path, line, function)
        for path, source in sources.items()
        for line, function, pattern in _printers(source.text, MIN_CONSTANT)
        if pattern.search(text)
    ]
    return found[0] if len(found) == 1 else None


@lru_cache(maxsize=256)
def _printers(text: str, least: int) -> tuple[tuple[int, str, re.Pattern[str]], ...]:
    """(line, function, pattern of what it prints) of each call that prints ``least`` constant letters or more."""
    program = parse_file(text)
    if isinstance(program, str):
        return ()
    return tuple(
        (node.lineno, getattr(scope, "name", "<module>"), pattern)
        for scope in program.owners
        for node in own_nodes(scope)
        if isinstance(node, ast.Call) and node.args and call_name(node) in _PRINTERS
        if (pattern := _pattern(node.args[0], least)) is not None
    )


def _pattern(argument: ast.expr, least: int) -> re.Pattern[str] | None:
    """A pattern of the constant parts of a text, anything between them."""
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        parts = re.split(r"%[-\d.]*[sdfgir]|\{[^}]*\}", argument.value)
    elif isinstance(argument, ast.JoinedStr):
        parts = [v.value if isinstance(v, ast.Constant) and isinstance(v.value, str) else "\0" for v in argument.values]
        parts = "".join(parts).split("\0")
    else:
        return None
    if len(parts) > 1 and _SPEAKER.search(parts[0]):
        parts = [parts[1].lstrip(" :]|)-.,"), *parts[2:]]  # readers take off who speaks
    if sum(len(part.strip()) for part in parts) < least:
        return None
    return re.compile(r".{0,200}?".join(re.escape(part) for part in parts))
