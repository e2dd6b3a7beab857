"""Files of training libraries that a program's own code reaches: where the names it imports are defined."""

from __future__ import annotations

import ast
import posixpath
import time
from collections import deque
from dataclasses import dataclass, field

from unhang.program.imports.import_graph import ImportFollower
from unhang.program.imports.import_statements import ImportStatement, imports_of
from unhang.program.syntax.syntax_tree import dotted, own_nodes, parse_file, walk

MAX_FILES, MAX_CHARACTERS, MAX_CALLS = 150, 6_000_000, 3


@dataclass(slots=True)
class _Search:
    follower: ImportFollower
    files: dict[str, str] = field(default_factory=dict)
    asked: set[tuple[str, str]] = field(default_factory=set)
    waiting: deque[tuple[str, str, int]] = field(default_factory=deque)
    """Files, names wanted of them, and how many calls away from the program."""
    texts: dict[str, str] = field(default_factory=dict)

    def add(self, one: ImportStatement, path: str, deep: int) -> None:
        """What ``one``, imported in ``path``, brings: names of a module, or modules."""
        found = self.follower.found(one, path)
        if found is None or found.rest or found.standard or not found.files or deep > MAX_CALLS:
            return
        for name in one.names:
            inner = self.follower.start.finder.inside(found, [name])
            target = (found.files[-1], name) if inner.rest or not inner.files else (inner.files[-1], "")
            if target not in self.asked:
                self.asked.add(target)
                self.waiting.append((*target, deep))

    def visit(self, path: str, name: str, deep: int) -> None:
        """Where ``name`` of the module at ``path`` is defined, and what that definition calls."""
        text = self.texts.setdefault(path, self.follower.folders.read(path).found or "")
        program = parse_file(text)
        if isinstance(program, str) or not name:
            return
        imported = [one for one in imports_of(program.tree, text) if not one.every]
        for node in program.tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
                self.files[path] = text
                self._called_by(node, imported, path, deep + 1)
                return
        for one in imported:
            if name in one.names:
                self.add(ImportStatement(one.module, one.line, one.level, (name,)), path, deep)
                return
        module = _lazy_home(program.tree, name)
        if module:
            self.add(ImportStatement(module, 0, 1, (name,)), path, deep)

    def _called_by(
        self, node: ast.ClassDef | ast.FunctionDef, imported: list[ImportStatement], path: str, deep: int
    ) -> None:
        bases = {dotted(base).rpartition(".")[2] for base in getattr(node, "bases", ())}
        called = {dotted(one.func).partition(".")[0] for one in own_nodes(node) if isinstance(one, ast.Call)}
        for one in imported:
            for name in one.names:
                if name in bases or name in called:
                    alone = ImportStatement(one.module, one.line, one.level, (name,))
                    self.add(alone, path, deep if name in called else deep - 1)
        for name in bases | called:
            if (path, name) not in self.asked:
                self.asked.add((path, name))
                self.waiting.append((path, name, deep))


def reached_library_files(follower: ImportFollower) -> dict[str, str]:
    """Texts by path. What is reached by more than a few calls is not read."""
    search = _Search(follower)
    for module, names in follower.done.libraries.items():
        search.add(ImportStatement(module, 0, names=tuple(sorted(names))), follower.start.script, 0)
    while search.waiting and len(search.files) < MAX_FILES and time.monotonic() < follower.until:
        if sum(map(len, search.files.values())) > MAX_CHARACTERS:
            break
        search.visit(*search.waiting.popleft())
    return search.files


def _lazy_home(tree: ast.Module, name: str) -> str:
    """The submodule that a lazy package's table names for ``name``: ``{"trainer": ["Trainer"]}``."""
    for node in walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and _lists(value, name):
                    return posixpath.basename(key.value) if "/" in key.value else key.value.lstrip(".")
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript) and _lists(node.value, name):
            key = node.targets[0].slice
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                return key.value.lstrip(".")
    return ""


def _lists(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.List | ast.Tuple) and any(
        isinstance(one, ast.Constant) and one.value == name for one in node.elts
    )
