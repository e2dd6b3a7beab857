"""Follow imports from a program's own files to more of them, breadth first and within limits; also over folders that
the program puts on ``sys.path`` itself, as far as its own file and literals say which."""

from __future__ import annotations

import ast
import operator
import posixpath
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from unhang.knowledge.libraries import is_library_file, is_training_library
from unhang.program.imports.folder_listing import FolderListing
from unhang.program.imports.import_statements import ImportStatement, imports_of
from unhang.program.imports.launch_entry import LaunchEntry
from unhang.program.imports.module_finder import FoundModule
from unhang.program.settings.chosen_subcommand import live_text
from unhang.program.syntax.evaluation import UNKNOWN, Evaluation
from unhang.program.syntax.syntax_tree import call_name, dotted, parse_file, walk

MAX_FILES, MAX_CHARACTERS = 1500, 16_000_000
_SAME = {"abspath", "realpath", "normpath", "expanduser", "str", "Path", "PurePath", "resolve", "absolute", "as_posix"}
_MAX_PARTS = 100


@dataclass(slots=True)
class FollowedImports:
    """``files``: texts by absolute path, in the order they were met. ``absent``: imports that lead nowhere.
    ``computed``: places that import what only running tells. ``unreadable``: files that are there and no Python, or
    that may not be read. ``libraries``: training libraries that are called, with the names imported from each module.
    """

    files: dict[str, str] = field(default_factory=dict)
    live: dict[str, str] = field(default_factory=dict)
    """The same without what no run with these arguments would do."""
    no_subcommand: list[str] = field(default_factory=list)
    """Places that know several subcommands, and none that was given."""
    absent: dict[str, None] = field(default_factory=dict)
    computed: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    libraries: dict[str, set[str]] = field(default_factory=dict)
    partly: bool = False


@dataclass(slots=True)
class ImportFollower:
    """One walk; ``until`` is a time of :func:`time.monotonic`, ``argv`` what the program is given."""

    folders: FolderListing
    start: LaunchEntry
    until: float
    argv: tuple[str, ...] = ()
    done: FollowedImports = field(default_factory=FollowedImports)
    _waiting: deque[str] = field(default_factory=deque)
    _asked: set[str] = field(default_factory=set)
    _lost: list[tuple[ImportStatement, str]] = field(default_factory=list)
    _read: int = 0

    def follow(self, entries: Iterable[str]) -> FollowedImports:
        """Everything of the user's that ``entries`` lead to. May be called again with more of them."""
        self._enqueue(entries)
        while self._waiting:
            if len(self.done.files) >= MAX_FILES or self._read >= MAX_CHARACTERS or time.monotonic() > self.until:
                self.done.partly = True
                break
            self._visit(self._waiting.popleft())
            if not self._waiting:
                self._retry_lost_imports()
        for one, path in self._lost:
            if not any(self._is_there(other, path) for other in one.instead):
                names = (other.name for other in sorted((one, *one.instead), key=lambda other: other.line))
                self.done.absent[" or ".join(dict.fromkeys(names))] = None
        self._lost.clear()
        return self.done

    def is_own(self, path: str) -> bool:
        """``path`` lies in a folder of the user's, and is nothing that was installed there."""
        if any(path.startswith(f"{root.rstrip('/')}/") for root in self.start.roots):
            below = max((r for r in self.start.roots if path.startswith(f"{r.rstrip('/')}/")), key=len)
            inside = path.removeprefix(below)
            return "/site-packages/" not in inside and "/dist-packages/" not in inside
        first = path.rpartition("-packages/")[2] if "-packages/" in path else ""
        return not first and not any(path.startswith(f"{f}/") for f in self.start.installed.folders)

    def _enqueue(self, paths: Iterable[str]) -> None:
        for path in paths:
            if path not in self._asked:
                self._asked.add(path)
                self._waiting.append(path)

    def _visit(self, path: str) -> None:
        look = self.folders.read(path)
        if look.found is None:
            self.done.unreadable.append(self.folders.shown(path))
            return
        self.done.files[path] = look.found
        self._read += len(look.found)
        live, lines = live_text(look.found, self.argv, is_main=path == self.start.script)
        self.done.live[path], program = live, parse_file(live)
        self.done.no_subcommand += [f"{self.folders.shown(path)}:{line}" for line in lines]
        if isinstance(program, str):
            self.done.unreadable.append(self.folders.shown(path))
            return
        before = len(self.start.finder.added)
        for folder in added_path_folders(program.tree, look.found, path, self.folders.absolute("")):
            if folder not in self.start.finder.added:
                self.start.finder.added.append(folder)
        if len(self.start.finder.added) > before:
            self._retry_lost_imports()
        for one in imports_of(program.tree, live):
            self._import(one, path)

    def _retry_lost_imports(self) -> None:
        """The program has put more folders on its path since these imports led nowhere."""
        lost, self._lost = self._lost, []
        for one, path in lost:
            self._import(one, path)

    def _import(self, one: ImportStatement, path: str) -> None:
        if one.every and not one.module and not one.level:
            self.done.computed.append(f"{self.folders.shown(path)}:{one.line}")
            return
        found = self.found(one, path)
        if found is None or found.rest:
            self._enqueue(file for file in (found.files if found is not None else ()) if self.is_own(file))
            self._not_found(one, path)
            return
        if found.standard:
            return
        inner = [self.start.finder.inside(found, [name]) for name in self._inner_names(one, found)]
        files = [*found.files, *(file for more in inner if not more.rest for file in more.files)]
        own = [file for file in dict.fromkeys(files) if self.is_own(file)]
        self._enqueue(own)
        if not own and one.package:
            self._not_own(one, found, bare=not files)

    def _is_there(self, one: ImportStatement, path: str) -> bool:
        found = self.found(one, path)
        return found is not None and not found.rest

    def found(self, one: ImportStatement, path: str) -> FoundModule | None:
        """The module that ``one``, standing in ``path``, names: as far as its parts are modules, None if none is."""
        finder = self.start.finder
        if not one.level:
            return finder.find(one.module)
        folder = posixpath.dirname(path)
        for _ in range(one.level - 1):
            folder = posixpath.dirname(folder)
        return finder.inside(finder.package(folder), one.module.split(".") if one.module else [])

    def _inner_names(self, one: ImportStatement, found: FoundModule) -> Iterable[str]:
        if one.every:
            return tuple(self.start.finder.submodules(found))
        return one.names

    def _not_found(self, one: ImportStatement, path: str) -> None:
        if is_training_library(one.package):
            self.done.libraries.setdefault(one.module, set()).update(one.names)
        elif not one.optional and not self._is_library(one.package):
            self._lost.append((one, path))

    def _not_own(self, one: ImportStatement, found: FoundModule, *, bare: bool) -> None:
        if is_training_library(one.package):
            self.done.libraries.setdefault(one.module, set()).update(one.names)
        elif bare and found.folders and one.names and not one.optional and not self._is_library(one.package):
            self.done.absent[one.name] = None  # a folder of that name, without anything of what is asked of it

    def _is_library(self, package: str) -> bool:
        """Nobody's own code: of a list of well-known packages, or installed as a library, by its files or metadata."""
        if not package:
            return False
        known = is_library_file(f"{package}/__init__.py") or is_library_file(f"{package}.py")
        known = known or bool(self.folders.machine.installed(package))
        installed = None if known else self.start.finder.find(package)
        return known or (installed is not None and bool(installed.files) and not any(map(self.is_own, installed.files)))


def added_path_folders(tree: ast.Module, text: str, file: str, folder: str) -> Iterator[str]:
    """Absolute folders of ``sys.path.insert(0, …)`` and ``append`` in the module at ``file``.

    Args:
        tree: of the module.
        text: its source.
        file: its absolute path, which ``__file__`` is.
        folder: the one the job runs in.
    """
    for node in walk(tree) if "sys.path" in text else ():
        if isinstance(node, ast.Call) and dotted(node.func) in ("sys.path.insert", "sys.path.append") and node.args:
            path = _PathValue(tree, file, folder).value(node.args[-1])
            if isinstance(path, str):
                yield posixpath.normpath(posixpath.join(folder, path))


class _PathValue(Evaluation):
    """Works a path out; a name stands for the first value it is given in whatever scope: such are seldom used twice."""

    arithmetic: ClassVar = {ast.Div: posixpath.join, ast.Add: operator.add}
    operands = str

    def __init__(self, tree: ast.Module, file: str, folder: str) -> None:
        self.tree, self.file, self.folder = tree, file, folder
        self.parts = 0

    def value(self, node: ast.expr) -> Any:
        """The path, or UNKNOWN: names may stand for each other in a circle."""
        self.parts += 1
        return super().value(node) if self.parts <= _MAX_PARTS else UNKNOWN

    def held(self, node: ast.expr) -> Any:
        """What a name holds, the text of an f-string, a folder above."""
        match node:
            case ast.Name(id="__file__"):
                return self.file
            case ast.Name(id=name):
                return self._given(name)
            case ast.JoinedStr(values=values):
                parts = [self.value(one.value if isinstance(one, ast.FormattedValue) else one) for one in values]
                return UNKNOWN if UNKNOWN in parts else "".join(map(str, parts))
            case ast.Attribute(attr="parent", value=below):
                return self._above(below, 1)
            case ast.Subscript(value=ast.Attribute(attr="parents", value=below), slice=ast.Constant(value=int(up))):
                return self._above(below, up + 1)
            case ast.Attribute(attr="pardir"):
                return ".."
        return super().held(node)

    def _given(self, name: str) -> Any:
        assigned = (node for node in walk(self.tree) if isinstance(node, ast.Assign) and len(node.targets) == 1)
        first = next((node.value for node in assigned if getattr(node.targets[0], "id", "") == name), None)
        return UNKNOWN if first is None else self.value(first)

    def _above(self, below: ast.expr, count: int) -> Any:
        path = self.value(below)
        for _ in range(count if isinstance(path, str) else 0):
            path = posixpath.dirname(path) or ("." if not path.startswith("/") else "/")
        return path

    def called(self, node: ast.Call) -> Any:
        """What the functions of ``os.path`` and the methods of ``Path`` give."""
        name, owner = call_name(node), [node.func.value] if isinstance(node.func, ast.Attribute) else []
        if name in ("getcwd", "cwd"):
            return self.folder
        if name in ("join", "joinpath"):
            parts = [self.value(one) for one in (*(owner if name == "joinpath" else ()), *node.args)]
            return posixpath.join(*parts) if parts and all(isinstance(one, str) for one in parts) else UNKNOWN
        if name == "dirname" and node.args:
            return self._above(node.args[0], 1)
        same = (*node.args, *owner) if name in _SAME else ()
        return self.value(same[0]) if same else UNKNOWN
