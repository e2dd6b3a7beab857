"""What is installed for the interpreter that would run the job: its folders are read as files, it is never started."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from unhang.program.imports.folder_listing import FolderListing
from unhang.program.settings.declared_options import default_of, targets_of
from unhang.program.syntax.syntax_tree import parse_file


@dataclass(frozen=True, slots=True)
class InstalledPackages:
    """``python``: the interpreter, empty where none was found. ``folders``: its ``site-packages`` and what ``.pth``
    files add. ``mapped``: editable packages by name."""

    python: str = ""
    folders: tuple[str, ...] = ()
    mapped: Mapping[str, str] = field(default_factory=dict)
    named: bool = False
    """By the command or by the active environment, not only the first one on PATH."""


def installed_for(folders: FolderListing, words: Sequence[str], environment: Mapping[str, str]) -> InstalledPackages:
    """Of the interpreter that the command names, else of the active environment, else of the one on PATH."""
    python, named = next(iter(_interpreters(folders, words, environment)), ("", False))
    if not python:
        return InstalledPackages()
    prefix = posixpath.dirname(posixpath.dirname(python))
    found: list[str] = []
    mapped: dict[str, str] = {}
    for site in _site_folders(folders, prefix, environment):
        found.append(site)
        for name in sorted(folders.names(site) or ()):
            if name.endswith((".pth", ".egg-link")):
                found += _added_by(folders, site, name)
            elif name.startswith("__editable__") and name.endswith("_finder.py"):
                mapped |= _mapping(folders.read(f"{site}/{name}").found or "")
    return InstalledPackages(python, tuple(dict.fromkeys(found)), mapped, named)


def _interpreters(
    folders: FolderListing, words: Sequence[str], environment: Mapping[str, str]
) -> Iterator[tuple[str, bool]]:
    """Each with whether something names it."""
    places = [place for place in environment.get("PATH", "").split(":") if place]
    for word in words[:1]:
        path = folders.absolute(word) if "/" in word else _on_path(folders, word, places)
        if re.fullmatch(r"python[\d.]*t?", posixpath.basename(word)) and path:
            yield path, True
        elif path and (said := _shebang(folders.read(path).found or "", folders, places)):
            yield said, True
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if (prefix := environment.get(name)) and folders.is_file(f"{prefix}/bin/python"):
            yield f"{prefix}/bin/python", True
    yield from ((path, False) for word in ("python", "python3") if (path := _on_path(folders, word, places)))


def _on_path(folders: FolderListing, word: str, places: Sequence[str]) -> str:
    return next((f"{place}/{word}" for place in places if folders.is_file(f"{place}/{word}")), "")


def _shebang(text: str, folders: FolderListing, places: Sequence[str]) -> str:
    """The Python that a console script starts with: ``#!/v/bin/python``, ``#!/usr/bin/env python3``."""
    first = text.partition("\n")[0]
    words = first.removeprefix("#!").split() if first.startswith("#!") else []
    if words and posixpath.basename(words[0]) == "env":
        words = [_on_path(folders, words[1], places)] if words[1:] else []
    return words[0] if words and posixpath.basename(words[0]).startswith("python") else ""


def _site_folders(folders: FolderListing, prefix: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Those of the prefix; behind them those of the system and the user, where the environment lets them in."""
    yield from _below(folders, prefix)
    told = folders.read(f"{prefix}/pyvenv.cfg").found
    if told is not None:
        said = dict(line.replace(" ", "").split("=", 1) for line in told.splitlines() if "=" in line)
        if said.get("include-system-site-packages", "").lower() != "true":
            return
        yield from _below(folders, posixpath.dirname(said.get("home", "")))
    if home := environment.get("HOME"):
        yield from _below(folders, f"{home}/.local")


def _below(folders: FolderListing, prefix: str) -> Iterator[str]:
    for above in (f"{prefix}/lib", f"{prefix}/local/lib", f"{prefix}/lib64"):
        for name in sorted(folders.names(above) or (), reverse=True):
            if re.fullmatch(r"python3(\.\d+t?)?", name):
                inner = (f"{above}/{name}/{kind}" for kind in ("site-packages", "dist-packages"))
                yield from (folder for folder in inner if folders.names(folder) is not None)


def _added_by(folders: FolderListing, site: str, name: str) -> list[str]:
    """Folders that a ``.pth`` or ``.egg-link`` file puts on the path; its lines of code are not run."""
    lines = (folders.read(f"{site}/{name}").found or "").splitlines()
    lines = lines[:1] if name.endswith(".egg-link") else lines
    wanted = (line.strip() for line in lines if line.strip() and not line.startswith(("#", "import ", "import\t")))
    return [
        path for line in wanted if folders.names(path := posixpath.normpath(posixpath.join(site, line))) is not None
    ]


def _mapping(text: str) -> dict[str, str]:
    """``MAPPING`` of the finder that setuptools writes for an editable install."""
    program = parse_file(text)
    for node in () if isinstance(program, str) else program.tree.body:
        named = any(getattr(target, "id", "") == "MAPPING" for target in targets_of(node))
        if named and isinstance(node, ast.AnnAssign | ast.Assign):
            told = default_of(node.value, {}) if node.value is not None else {}
            return {str(name): str(path) for name, path in told.items()} if isinstance(told, dict) else {}
    return {}
