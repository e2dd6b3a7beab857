"""Which files of its own a program may import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath


def imported_files(text: str, folder: PurePosixPath) -> Iterator[str]:
    """Files below ``folder`` that ``text``, a module there or the script itself, may import; empty where unreadable."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            path = folder / name.replace(".", "/")
            yield from (f"{path}.py", f"{path}/__init__.py")
