"""What a program imports, and in which files of its own that may lie."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

_BY_NAME = ("import_module", "__import__")


@dataclass(frozen=True, slots=True)
class Import:
    """``name`` as it is written, dots of a relative import included; ``files``: where it would lie."""

    name: str
    files: tuple[str, ...]

    @property
    def package(self) -> str:
        """The first part of the name; empty for a relative import."""
        return self.name.partition(".")[0]


def imports_of(text: str, folder: PurePosixPath, here: PurePosixPath | None = None) -> Iterator[Import]:
    """What ``text`` imports; nothing where it cannot be parsed.

    Args:
        text: the source of a module.
        folder: that of the script, where names of the project are looked up.
        here: the folder of the module itself, for relative imports; None: that of the script.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, _files(folder, alias.name)) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield _from(node, folder, here or folder)
        elif isinstance(node, ast.Call) and (name := _name_given(node)):
            yield Import(name, _files(folder, name))


def loads_by_name(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls that run a module or a text which is known only when the program runs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _loads(node):
            yield node


def _loads(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in ("run_path", "run_module", "exec_module"):
        return True
    if name == "exec" and isinstance(call.func, ast.Name):
        return True
    return name in _BY_NAME and not _name_given(call)


def _name_given(call: ast.Call) -> str:
    """The module that ``import_module("a.b")`` names; empty where it is not told there."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    given = call.args[0].value if name in _BY_NAME and call.args and isinstance(call.args[0], ast.Constant) else ""
    return given if isinstance(given, str) and not given.startswith(".") else ""


def imported_files(text: str, folder: PurePosixPath) -> Iterator[str]:
    """Files below ``folder`` that ``text``, a module there or the script itself, may import; empty where unreadable."""
    for one in imports_of(text, folder):
        yield from one.files


def _from(node: ast.ImportFrom, folder: PurePosixPath, here: PurePosixPath) -> Import:
    """``from a.b import c``: the module, and ``c`` as a module inside it."""
    if node.level:
        parents = [here, *here.parents]
        folder = parents[min(node.level - 1, len(parents) - 1)]
    module = node.module or ""
    inner = [f"{module}.{alias.name}" if module else alias.name for alias in node.names if alias.name != "*"]
    names = [module] if module else [""]
    files = [file for name in (*names, *inner) for file in _files(folder, name)]
    return Import("." * node.level + module, tuple(files))


def _files(folder: PurePosixPath, name: str) -> tuple[str, ...]:
    if not name:
        return (f"{folder}/__init__.py",)
    path = folder / name.replace(".", "/")
    return f"{path}.py", f"{path}/__init__.py"
