"""Folders that a program puts on ``sys.path`` itself, as far as its own file and literals say which."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from unhang.program.syntax.syntax_tree import call_name, dotted

_SAME = {"abspath", "realpath", "normpath", "expanduser", "str", "Path", "PurePath", "resolve", "absolute", "as_posix"}
_PARENT = {"os.pardir": "..", "os.path.pardir": "..", "os.curdir": "."}
_MAX_DEPTH = 12
_Inner: TypeAlias = Callable[[ast.expr], "str | None"]


def added_path_folders(tree: ast.Module, text: str, file: str, folder: str) -> Iterator[str]:
    """Absolute folders of ``sys.path.insert(0, …)``, ``append``, ``extend`` and ``+=`` in the module at ``file``.

    Args:
        tree: of the module.
        text: its source.
        file: its absolute path, which ``__file__`` is.
        folder: the one the job runs in.
    """
    if "sys.path" not in text and "addsitedir" not in text:
        return
    names = _assigned(tree)
    for node in ast.walk(tree):
        for value in _values(node):
            path = _path(value, names, file, folder, _MAX_DEPTH)
            if path is not None:
                yield posixpath.normpath(posixpath.join(folder, path))


def _values(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.AugAssign) and dotted(node.target) == "sys.path":
        return _listed(node.value)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return []
    name, owner = node.func.attr, dotted(node.func.value)
    if owner == "site" and name == "addsitedir":
        return node.args[:1]
    if owner != "sys.path":
        return []
    if name == "extend":
        return _listed(node.args[0]) if node.args else []
    return node.args[-1:] if name in ("insert", "append") else []


def _listed(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.List | ast.Tuple) else []


def _assigned(tree: ast.Module) -> Mapping[str, ast.expr]:
    """The first value of each name, in whatever scope: such names are seldom used twice."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, node.value)
    return found


def _path(node: ast.expr, names: Mapping[str, ast.expr], file: str, folder: str, deep: int) -> str | None:
    """What ``node`` says as a path; None where only running tells."""

    def inner(one: ast.expr) -> str | None:
        return _path(one, names, file, folder, deep - 1)

    if deep <= 0:
        return None
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return file if node.id == "__file__" else inner(names[node.id]) if node.id in names else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Add):
        left, right = inner(node.left), inner(node.right)
        joined = left is not None and right is not None
        return (
            None
            if not joined
            else posixpath.join(str(left), str(right))
            if isinstance(node.op, ast.Div)
            else f"{left}{right}"
        )
    if isinstance(node, ast.JoinedStr):
        parts = [inner(part.value if isinstance(part, ast.FormattedValue) else part) for part in node.values]
        return None if None in parts else "".join(map(str, parts))
    if isinstance(node, ast.Attribute):
        return _attribute(node, inner)
    if isinstance(node, ast.Subscript) and dotted(node.value).endswith(".parents"):
        above = inner(node.value.value) if isinstance(node.value, ast.Attribute) else None
        up = node.slice.value if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int) else None
        return None if above is None or up is None else _above(above, up + 1)
    return _call(node, inner, folder) if isinstance(node, ast.Call) else None


def _attribute(node: ast.Attribute, inner: _Inner) -> str | None:
    if (known := _PARENT.get(dotted(node))) is not None:
        return known
    above = inner(node.value) if node.attr == "parent" else None
    return None if above is None else _above(above, 1)


def _call(node: ast.Call, inner: _Inner, folder: str) -> str | None:
    name, owner = call_name(node), node.func.value if isinstance(node.func, ast.Attribute) else None
    if name in ("getcwd", "cwd"):
        return folder
    if name in ("join", "joinpath"):
        first = [owner] if name == "joinpath" and owner is not None else []
        parts = [inner(part) for part in (*first, *node.args)]
        return None if None in parts or not parts else posixpath.join(*map(str, parts))
    if name == "dirname" and node.args:
        below = inner(node.args[0])
        return None if below is None else _above(below, 1)
    if name in _SAME:
        same = node.args[0] if node.args else owner
        return None if same is None else inner(same)
    return None


def _above(path: str, count: int) -> str:
    for _ in range(count):
        path = posixpath.dirname(path) or ("." if not path.startswith("/") else "/")
    return path
