"""Which function a console script calls: by the project in the folder, or by the script that was installed for it."""

from __future__ import annotations

import ast
import configparser
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import tomli

from unhang.program.launch.shell.session import FollowSession
from unhang.program.launch.shell.state import ShellState
from unhang.program.syntax.syntax_tree import parse_file

_ENTRY = re.compile(r"\s*([\w.-]+)\s*=\s*([A-Za-z_][\w.]*)\s*:\s*([A-Za-z_][\w.]*)\s*(?:\[.*\])?\s*")
_SOURCES = ("", "src", "python", "lib")
MAX_ABOVE = 4


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """The module whose function is called; ``roots``: folders in which it may lie."""

    module: str
    roots: tuple[str, ...]

    def files(self, module: str = "") -> Iterator[str]:
        """Where the source of ``module`` may be; default: that of the function."""
        path = (module or self.module).replace(".", "/")
        for root in self.roots:
            yield posixpath.normpath(posixpath.join(root, f"{path}.py"))
            yield posixpath.normpath(posixpath.join(root, path, "__init__.py"))


def entry_point(session: FollowSession, state: ShellState, name: str) -> EntryPoint | None:
    """What the command ``name`` calls; None where it is no console script of Python."""
    folder = state.folder
    for _ in range(MAX_ABOVE):
        found = _of_project(session, folder).get(name)
        if found is not None:
            roots = tuple(posixpath.join(folder, source) for source in _SOURCES)
            return EntryPoint(found, roots)
        folder = posixpath.join(folder, "..")
    return _installed(session, state, name)


def _of_project(session: FollowSession, folder: str) -> Mapping[str, str]:
    texts = {name: session.read(posixpath.join(folder, name)) for name in ("pyproject.toml", "setup.cfg", "setup.py")}
    told = [
        *_in_pyproject(texts["pyproject.toml"] or ""),
        *_in_setup_cfg(texts["setup.cfg"] or ""),
        *_in_setup_py(texts["setup.py"] or ""),
    ]
    found = (_ENTRY.fullmatch(one) for one in told)
    return {one[1]: one[2] for one in found if one is not None}


def _in_pyproject(text: str) -> Iterator[str]:
    try:
        tree: Any = tomli.loads(text)
    except ValueError:
        return
    tools = tree.get("tool") or {}
    for table in (tree.get("project") or {}, tools.get("poetry") or {}, tools.get("flit") or {}):
        scripts = table.get("scripts") if isinstance(table, Mapping) else None
        if isinstance(scripts, Mapping):
            yield from (f"{name} = {target}" for name, target in scripts.items())


def _in_setup_cfg(text: str) -> Iterator[str]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    yield from parser.get("options.entry_points", "console_scripts", fallback="").splitlines()


def _in_setup_py(text: str) -> Iterator[str]:
    """Every text in it that is written as an entry point: lists of them are made in many ways."""
    for node in python_nodes(text):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from node.value.splitlines()


def python_nodes(text: str) -> list[ast.AST]:
    """Every node of a source; none where it is no Python."""
    parsed = parse_file(text)
    return [] if isinstance(parsed, str) else list(ast.walk(parsed.tree))


def _installed(session: FollowSession, state: ShellState, name: str) -> EntryPoint | None:
    """The file that an installer wrote: ``from pkg.cli import main`` behind the first line with its Python."""
    path = state.value("PATH")
    folders = path.split(":") if isinstance(path, str) and "/" not in name else []
    for folder in folders:
        text = session.machine.read(f"{folder}/{name}").found if folder.startswith("/") else None
        if text is not None:
            is_python = "python" in text.partition("\n")[0] and len(text) <= 1 << 16
            return _of_script(session, text, posixpath.dirname(folder)) if is_python else None
    return None


def _of_script(session: FollowSession, text: str, prefix: str) -> EntryPoint | None:
    imports = [node for node in python_nodes(text) if isinstance(node, ast.ImportFrom)]
    module = next((node.module for node in imports if node.module not in (None, "sys")), None)
    if not module:
        return None
    lib = f"{prefix}/lib"
    roots = [
        f"{lib}/{name}/{kind}"
        for name in session.machine.entries(lib).found or ()
        if name.startswith("python3")
        for kind in ("site-packages", "dist-packages")
    ]
    return EntryPoint(module, tuple(roots))
