"""Follow imports from a program's own files to more of them, breadth first and within limits; also over folders that
the program puts on ``sys.path`` itself, as far as its own file and literals say which."""

from __future__ import annotations

import ast
import posixpath
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from unhang.knowledge.libraries import is_library_file, is_training_library
from unhang.program.imports.folder_listing import FolderListing
from unhang.program.imports.import_statements import ImportStatement, imports_of
from unhang.program.imports.launch_entry import LaunchEntry
from unhang.program.imports.module_finder import FoundModule
from unhang.program.settings.untaken_branches import statically_live
from unhang.program.syntax.syntax_tree import call_name, dotted, parse_file

MAX_FILES, MAX_CHARACTERS = 1500, 16_000_000
_SAME = {"abspath", "realpath", "normpath", "expanduser", "str", "Path", "PurePath", "resolve", "absolute", "as_posix"}
_PARENT = {"os.pardir": "..", "os.path.pardir": "..", "os.curdir": "."}
_MAX_DEPTH = 12
_Inner: TypeAlias = Callable[[ast.expr], "str | None"]


@dataclass(slots=True)
class FollowedImports:
    """``files``: texts by absolute path, in the order they were met. ``absent``: imports that lead nowhere.
    ``computed``: places that import what only running tells. ``unreadable``: files that are there and no Python, or
    that may not be read. ``libraries``: training libraries that are called, with the names imported from each module.
    """

    files: dict[str, str] = field(default_factory=dict)
    absent: dict[str, None] = field(default_factory=dict)
    computed: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    libraries: dict[str, set[str]] = field(default_factory=dict)
    partly: bool = False


@dataclass(slots=True)
class ImportFollower:
    """One walk; ``until`` is a time of :func:`time.monotonic`."""

    folders: FolderListing
    start: LaunchEntry
    until: float
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
        program = parse_file(statically_live(look.found, is_main=path == self.start.script))
        if isinstance(program, str):
            self.done.unreadable.append(self.folders.shown(path))
            return
        before = len(self.start.finder.added)
        for folder in added_path_folders(program.tree, look.found, path, self.folders.absolute("")):
            if folder not in self.start.finder.added:
                self.start.finder.added.append(folder)
        if len(self.start.finder.added) > before:
            self._retry_lost_imports()
        for one in imports_of(program.tree, look.found):
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
        """Nobody's own code: of a list of well-known packages, or installed as a library."""
        if not package:
            return False
        known = is_library_file(f"{package}/__init__.py") or is_library_file(f"{package}.py")
        installed = None if known else self.start.finder.find(package)
        return known or (installed is not None and bool(installed.files) and not any(map(self.is_own, installed.files)))


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
