"""Where a program reads a variable of the environment itself."""

from __future__ import annotations

import ast

from unhang.findings import Source
from unhang.program.program_source import ProgramSource
from unhang.program.syntax.syntax_tree import call_name, dotted, parsed_files, walk

_ASKING = {"get", "getenv", "pop", "setdefault"}


def first_read(program: ProgramSource, name: str) -> Source | None:
    """The first place in the user's files, then in libraries they call, that reads ``name``; None where none does."""
    every = (*(program.whole or program.files), *program.libraries)
    for file, parsed in parsed_files(file for file in every if name in file.text):
        for node in walk(parsed.tree):
            if _reads(node, name):
                return Source(file.path, getattr(node, "lineno", 1))
    return None


def _reads(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Subscript):
        return _is_name(node.slice, name) and "environ" in dotted(node.value) and isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Call):
        return call_name(node) in _ASKING and bool(node.args) and _is_name(node.args[0], name)
    if isinstance(node, ast.Compare):  # "NCCL_TIMEOUT" in os.environ
        return _is_name(node.left, name) and any("environ" in dotted(side) for side in node.comparators)
    return False


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == name
