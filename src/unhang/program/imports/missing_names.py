"""Imports of a launch that the release which is installed does not have. Read from its source; nothing is imported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from unhang.program.imports.certain_imports import certain_modules
from unhang.program.imports.import_statements import ImportStatement
from unhang.program.imports.launch_entry import LaunchEntry
from unhang.program.imports.module_finder import FoundModule, ModuleFinder

_MAKES_NAMES = re.compile(r"__getattr__|sys\.modules|globals\(\)|setattr\(|_?LazyModule|attach_stub|\bexec\(")
"""Names of such a module are known only when it is imported."""
_STARS = re.compile(r"^\s*from\s+(\.*)([\w.]*)\s+import\s+\*", re.MULTILINE)
_MAX_STARS = 40


@dataclass(frozen=True, slots=True)
class MissingName:
    """``module`` has no ``name``; ``path`` and ``line``: where the launch imports it. ``is_module``: it is the module
    itself that is not there."""

    module: str
    name: str
    path: str
    line: int
    is_module: bool


def missing_names(start: LaunchEntry) -> Iterator[MissingName]:
    """Of imports that every run of the launch comes to, those that end it, by what lies in the installed packages."""
    finder = start.finder
    for one in certain_modules(start):
        if "sys.path" in one.text or "sys.modules" in one.text:
            return
        for needed in one.imports:
            found = None if needed.level or needed.every or needed.package in one.own else finder.find(needed.module)
            for module, name, is_module in _missing(finder, needed, found) if found is not None else ():
                path = finder.folders.shown_as_asked(one.path)
                yield MissingName(module, name, path, needed.line, is_module)


def _missing(finder: ModuleFinder, needed: ImportStatement, found: FoundModule) -> Iterator[tuple[str, str, bool]]:
    parts = needed.module.split(".")
    last = parts[len(parts) - len(found.rest) - 1]
    if found.standard or not found.files or not found.files[-1].endswith((f"/{last}.py", f"/{last}/__init__.py")):
        return  # what is compiled, or lies in a bare folder, has no source that tells
    if found.rest:
        if not _may_have(finder, found.files[-1], found.rest[0]):
            yield needed.module, found.rest[0], True
        return
    for name in needed.names:
        is_module = bool(found.folders) and not finder.inside(found, [name]).rest
        if not is_module and not _may_have(finder, found.files[-1], name):
            yield needed.module, name, False


def _may_have(finder: ModuleFinder, path: str, name: str) -> bool:
    """Unless all is read that could give a module this name, and nothing of it holds the word."""
    waiting = [path]
    word = re.compile(rf"\b{re.escape(name)}\b")
    for at in waiting:
        text = finder.folders.read(at).found
        if text is None or word.search(text) or _MAKES_NAMES.search(text) or len(waiting) > _MAX_STARS:
            return True
        for dots, module in _STARS.findall(text):
            files = _star(finder, at, len(dots), module)
            if files is None:
                return True
            waiting += [one for one in files if one not in waiting]
    return False


def _star(finder: ModuleFinder, at: str, level: int, module: str) -> tuple[str, ...] | None:
    """The file behind ``from .module import *`` in the file ``at``; None where it is not found, or no Python."""
    parts = module.split(".") if module else []
    if level:
        folder = at.rsplit("/", level)[0]
        found = finder.inside(finder.package(folder), parts)
    else:
        top = finder.find(module)
        if top is None or top.standard:
            return None
        found = top
    return found.files[-1:] if found.files and not found.rest else None
