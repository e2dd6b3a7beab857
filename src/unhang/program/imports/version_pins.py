"""Releases that a project asks for: requirements files, ``pyproject.toml``, ``setup.py``, conda environments, scripts
that call ``pip install``. They tell what would be installed where nothing is installed yet. Nothing is run.
"""

from __future__ import annotations

import ast
import configparser
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

import tomli
import yaml
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from unhang.program.imports.folder_listing import FolderListing
from unhang.program.syntax.syntax_tree import parse_file

MAX_FILES = 40
_INSTALLERS = {"pip", "pip3", "conda", "mamba", "micromamba"}
_OTHER_NAMES = {"pytorch": "torch", "pytorch-lightning": "lightning"}


@dataclass(frozen=True, slots=True)
class VersionPin:
    """What ``path`` asks for on ``line``. ``optional``: of an extra that may not be installed."""

    package: str
    requirement: Requirement
    path: str
    line: int
    optional: bool = False

    @property
    def release(self) -> str:
        """The one release that it allows; empty where it allows several."""
        exact = [one for one in self.requirement.specifier if one.operator in ("==", "===")]
        return exact[0].version if exact and not exact[0].version.endswith("*") else ""

    @property
    def allowed(self) -> str:
        """The releases that it allows, as it says it."""
        return str(self.requirement.specifier) or self.requirement.url or ""


def find_version_pins(folders: FolderListing, where: Iterable[str]) -> dict[str, VersionPin]:
    """By package, what counts: of the first folder that says something, one release before several.

    An extra counts where nothing else names the package and all extras that do ask for the same.
    """
    found: dict[str, list[VersionPin]] = {}
    for folder in dict.fromkeys(where):
        here: dict[str, list[VersionPin]] = {}
        for pin in _of_folder(folders, folder):
            if pin.allowed and (pin.requirement.marker is None or pin.requirement.marker.evaluate()):
                here.setdefault(pin.package, []).append(pin)
        for package, pins in here.items():
            found.setdefault(package, pins)
    return {package: _counts(pins) for package, pins in found.items()}


def _counts(pins: list[VersionPin]) -> VersionPin:
    firm = [pin for pin in pins if not pin.optional]
    if firm:
        return next((pin for pin in firm if pin.release), firm[0])
    several = [pin for pin in pins if not pin.release]
    return several[0] if several else pins[0]


def _of_folder(folders: FolderListing, folder: str) -> Iterator[VersionPin]:
    """Scripts first: they run after what a project declares, and what they install stays."""
    names = sorted(folders.names(folder) or ())
    for pattern, read in _READERS:
        for name in [name for name in names if fnmatch(name, pattern)][:MAX_FILES]:
            path = posixpath.join(folder, name)
            text = folders.read(path).found
            if text is not None:
                yield from read(folders, path, text)


def _of_requirements(folders: FolderListing, path: str, text: str, deep: int = 3) -> Iterator[VersionPin]:
    for number, line in enumerate(text.splitlines(), 1):
        word = re.split(r"\s#|\s--hash", line.strip())[0].rstrip("\\").strip()
        other = re.fullmatch(r"(?:-r|--requirement)[ =]?\s*(\S+)", word)
        if other and deep:
            inner = posixpath.normpath(posixpath.join(posixpath.dirname(path), other[1]))
            yield from _of_requirements(folders, inner, folders.read(inner).found or "", deep - 1)
        elif pin := _pin(folders, path, word, number):
            yield pin


def _of_scripts(folders: FolderListing, path: str, text: str) -> Iterator[VersionPin]:
    """``pip install torch==2.5.1 …``, also behind ``RUN`` or ``python -m``, over several lines."""
    joined, start = "", 1
    for number, line in enumerate(text.splitlines(), 1):
        start = start if joined else number
        joined += line.rstrip().removesuffix("\\") + " "
        if line.rstrip().endswith("\\"):
            continue
        if "install" in joined:
            yield from (pin for word in _installed_words(joined) if (pin := _pin(folders, path, word, start)))
        joined = ""


def _installed_words(line: str) -> Iterator[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split, lexer.commenters = True, "#"
    installs, before = False, ""
    try:
        for word in lexer:
            if set(word) <= set(";&|()"):
                installs = False
            elif word == "install":
                installs = posixpath.basename(before) in _INSTALLERS
            elif installs and not word.startswith("-"):
                yield word
            before = word
    except ValueError:
        return  # a quote that is not closed: what stands before it was read


def _of_setup(folders: FolderListing, path: str, text: str) -> Iterator[VersionPin]:
    """Texts in lists and tuples that read as requirements; those in a dictionary are extras."""
    program = parse_file(text)
    nodes = [] if isinstance(program, str) else list(ast.walk(program.tree))
    optional = {id(inner) for node in nodes if isinstance(node, ast.Dict) for inner in ast.walk(node)}
    for node in nodes:
        for one in node.elts if isinstance(node, ast.List | ast.Tuple) else ():
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                pin = _pin(folders, path, one.value, one.lineno, optional=id(node) in optional)
                if pin:
                    yield pin


def _of_setup_cfg(folders: FolderListing, path: str, text: str) -> Iterator[VersionPin]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    for line in parser.get("options", "install_requires", fallback="").splitlines():
        yield from _found_in(folders, path, text, [line])
    extras = parser.items("options.extras_require") if parser.has_section("options.extras_require") else []
    for _, lines in extras:
        yield from _found_in(folders, path, text, lines.splitlines(), optional=True)


def _of_pyproject(folders: FolderListing, path: str, text: str) -> Iterator[VersionPin]:
    try:
        tree: Mapping[str, Any] = tomli.loads(text)
    except tomli.TOMLDecodeError:
        return
    project, tool = _table(tree.get("project")), _table(tree.get("tool"))
    yield from _found_in(folders, path, text, _texts(project.get("dependencies")))
    for extra in (
        *_table(project.get("optional-dependencies")).values(),
        *_table(tree.get("dependency-groups")).values(),
    ):
        yield from _found_in(folders, path, text, _texts(extra), optional=True)
    poetry = _table(_table(tool.get("poetry")).get("dependencies"))
    for name, told in poetry.items():
        yield from _found_in(folders, path, text, [_of_poetry(name, told)], written=f"{name} =")


def _of_poetry(name: str, told: Any) -> str:
    """``torch = "2.5.1"`` is that release; a caret or a star are several."""
    version = str(_table(told).get("version", "") if isinstance(told, Mapping) else told)
    if version.startswith("^"):
        return f"{name}>={version[1:]}"
    return f"{name}=={version}" if version[:1].isdigit() else f"{name}{version}"


def _of_conda(folders: FolderListing, path: str, text: str) -> Iterator[VersionPin]:
    try:
        tree = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return
    for one in _table(tree).get("dependencies") or ():
        if isinstance(one, str):
            yield from _found_in(folders, path, text, [_as_pip(one)], written=one)
        else:
            yield from _found_in(folders, path, text, _texts(_table(one).get("pip")))


def _as_pip(text: str) -> str:
    """``pytorch=2.5.1=py3.11_cuda12.4`` of conda, as pip would write it."""
    found = re.fullmatch(r"([\w.-]+)=(\d[\w.]*)(?:=\S+)?", text.strip().partition("::")[2] or text.strip())
    if found is None:
        return text
    return f"{found[1]}=={found[2]}" + ("" if found[2].count(".") > 1 else ".*")


def _found_in(
    folders: FolderListing, path: str, text: str, wanted: Iterable[str], *, optional: bool = False, written: str = ""
) -> Iterator[VersionPin]:
    """Each of ``wanted``, on the first line of ``text`` that holds it as it is ``written``."""
    for one in wanted:
        line = text.count("\n", 0, max(text.find(written or one.strip()), 0)) + 1
        if pin := _pin(folders, path, one, line, optional=optional):
            yield pin


def _pin(folders: FolderListing, path: str, word: str, line: int, *, optional: bool = False) -> VersionPin | None:
    try:
        requirement = Requirement(word)
    except InvalidRequirement:
        return None
    name = canonicalize_name(requirement.name)
    return VersionPin(_OTHER_NAMES.get(name, name), requirement, folders.shown_as_asked(path), line, optional)


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


_READERS = (
    ("*.sh", _of_scripts),
    ("Dockerfile*", _of_scripts),
    ("requirements*.txt", _of_requirements),
    ("pyproject.toml", _of_pyproject),
    ("setup.cfg", _of_setup_cfg),
    ("setup.py", _of_setup),
    ("environment*.y*ml", _of_conda),
)
