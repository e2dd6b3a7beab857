"""Arguments and configuration values that name code: ``x.py[:function]``, ``pkg.mod:Class``, a package's folder."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from unhang.program.imports.folder_listing import FolderListing
from unhang.program.imports.module_finder import ModuleFinder
from unhang.program.launch.launch import Configuration, Launch
from unhang.program.syntax.syntax_tree import parse_file, walk

_FILE = re.compile(r"[^\s:]+\.py(?=$|:)")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_TARGETS = ("_target_", "class_path", "_component_")
"""Keys whose value is always a class or a function: Hydra, jsonargparse, torchtune."""
_MAX_VALUES = 5_000


@dataclass(frozen=True, slots=True)
class NamedCode:
    """``files``: what ``value``, given as ``name``, leads to. ``because``: why it leads to none though it must."""

    name: str
    value: str
    files: tuple[str, ...] = ()
    because: str = ""


def named_code(
    folders: FolderListing, finder: ModuleFinder, launch: Launch, configuration: Configuration
) -> Iterator[NamedCode]:
    """Every value of the launch that is code, or should be and is not found."""
    values = [(name, text) for name, text in launch.arguments.items()]
    values += [("", word) for word in launch.words]
    values += [pair for file in configuration.files for pair in _leaves(file.tree)]
    trusted = any(name.endswith("trust_remote_code") and text.lower() in ("true", "1", "yes") for name, text in values)
    seen: set[str] = set()
    for name, text in values[:_MAX_VALUES]:
        for word in text.split() if name else [text]:
            if word not in seen:
                seen.add(word)
                yield from _code(folders, finder, name, word, trusted=trusted)


def _leaves(tree: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(tree, Mapping):
        for key, inner in tree.items():
            yield from _leaves(inner, str(key))
    elif isinstance(tree, list):
        for inner in tree:
            yield from _leaves(inner, name)
    elif isinstance(tree, str | bool):
        yield name, str(tree)


def _code(folders: FolderListing, finder: ModuleFinder, name: str, text: str, *, trusted: bool) -> Iterator[NamedCode]:
    if (file := _FILE.match(text)) is not None:
        path = folders.absolute(file.group())
        there = folders.is_file(path)
        yield NamedCode(name, text, (path,) if there else (), "" if there else "not there")
        return
    if trusted and "model" in name:
        yield from _model_code(folders, name, text)
        return
    folder = folders.absolute(text)
    if "/" in text or folders.is_file(f"{folder}/__init__.py"):
        if folders.is_file(f"{folder}/__init__.py"):
            yield NamedCode(name, text, (f"{folder}/__init__.py",))
        return
    module, colon, _ = text.partition(":")
    if ("." in text or colon) and _DOTTED.fullmatch(module):
        found = finder.find(module)
        must = name in _TARGETS or bool(colon and found is not None)
        if found is not None and found.files and len(found.rest) <= 2 and not (found.rest and "." not in module):
            yield NamedCode(name, text, found.files)
        elif must and found is None:
            yield NamedCode(name, text, (), "not found")


def _model_code(folders: FolderListing, name: str, text: str) -> Iterator[NamedCode]:
    """``trust_remote_code``: the Python files of a model's folder; those of a model on a hub are not here."""
    folder = folders.absolute(text)
    inside = folders.names(folder)
    if inside is not None:
        files = tuple(f"{folder}/{one}" for one in sorted(inside) if one.endswith(".py"))
        yield NamedCode(name, text, files)
    elif "path" in name or "name" in name or text.count("/") == 1:
        yield NamedCode(name, text, (), "trust_remote_code: its code is on a hub")


def modules_started(texts: Mapping[str, str], words: Collection[str]) -> Iterator[str]:
    """``pkg.train`` of ``{"train": "pkg.train"}`` where ``train`` is among ``words``, and ``-m`` starts modules."""
    if not words or not any('"-m"' in text or "'-m'" in text for text in texts.values()):
        return
    for text in texts.values():
        program = parse_file(text) if any(word in text for word in words) else ""
        if isinstance(program, str):
            continue
        for node in walk(program.tree):
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    told = value.value if isinstance(value, ast.Constant) else None
                    if isinstance(key, ast.Constant) and key.value in words and _is_module(told):
                        yield str(told)


def _is_module(text: object) -> bool:
    return isinstance(text, str) and "." in text and all(part.isidentifier() for part in text.split("."))
