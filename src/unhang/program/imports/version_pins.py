"""Releases that a project asks for: requirements files, ``pyproject.toml``, ``setup.py``, lock files, conda
environments, scripts that call ``pip install``. Nothing is run.
"""

from __future__ import annotations

import ast
import configparser
import json
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from typing import Any, Literal

import tomli
import yaml
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from unhang.program.imports.folder_listing import FolderListing
from unhang.program.syntax.assignments import assigned_values
from unhang.program.syntax.syntax_tree import parse_file, walk

MAX_FILES = 40
_YEARS = 1900
Role = Literal["needed", "limit", "choice", "extra"]
"""``needed``: it must be there; ``limit``: counts where it is there (constraints, locks, conda); ``choice``: a script
or one requirements file of several; ``extra``: of an extra or a group, or nobody says of which."""
_OWN = "."  # the project itself: which of its extras are asked for
_INSTALLERS = {"pip", "pip3", "conda", "mamba", "micromamba"}
_OTHER_NAMES = {"pytorch": "torch", "pytorch-lightning": "lightning"}
_OTHER_FILE = re.compile(r"(-r|--requirement|-c|--constraint)[ =]?\s*(\S+)")
_EXTRAS = re.compile(r"(?:-e\s*|--editable[ =]\s*)?\.[^\[\s]*\[([^\]]+)\]")
_LOCKED = re.compile(r'^\[\[package\]\]\s+name = "([^"]+)"\s+version = "([^"]+)"', re.MULTILINE)
_LOCAL = re.compile(r"\+[\w.]+")
_LOGIN = re.compile(r"//(?!git@)[^/\s]*@")


@dataclass(frozen=True, slots=True)
class VersionPin:
    """What ``path`` asks for on ``line``. ``extra``: the one it is part of; empty for what is always asked for."""

    package: str
    requirement: Requirement
    path: str
    line: int
    role: Role = "needed"
    extra: str = ""

    @property
    def release(self) -> str:
        """The one release that it allows; empty where it allows several."""
        exact = [one for one in self.requirement.specifier if one.operator in ("==", "===")]
        return exact[0].version if exact and not exact[0].version.endswith("*") else ""

    @property
    def allowed(self) -> str:
        """The releases that it allows, as it says it."""
        return str(self.requirement.specifier) or without_login(self.requirement.url or "")

    def allows(self, version: str) -> bool:
        """Whether ``version`` is one of them; a vendor's build (``2.6.0a0+nv25.01``) passes for its release too."""
        try:
            found = Version(version)
        except InvalidVersion:
            return True  # of nothing that pip could compare
        if found.local:
            specifier = self.requirement.specifier
            return specifier.contains(found, prereleases=True) or specifier.contains(found.base_version)
        return SpecifierSet(_LOCAL.sub("", str(self.requirement.specifier))).contains(found, prereleases=True)

    def is_for_another_major(self, version: str) -> bool:
        """No release that it allows is of the major release of ``version``, up to its first number but zero."""
        with suppress(InvalidVersion):
            major, minor = Version(version).major, Version(version).minor
            return major < _YEARS and self.excludes(SpecifierSet(f"=={major}.*" if major else f"==0.{minor}.*"))
        return False

    def excludes(self, specifier: SpecifierSet) -> bool:
        """No release fits both: tried with those at the edges of both and right behind these."""
        both = self.requirement.specifier & specifier
        edges = [one.version.removesuffix(".*") for one in both if one.operator != "==="]
        behind = (f"{edge}.1" for edge in edges if edge.replace(".", "").isdecimal())
        return bool(edges) and not any(both.contains(one, prereleases=True) for one in ("0", *edges, *behind))


@dataclass(frozen=True, slots=True)
class ProjectPins:
    """``of``: by package, all that the nearest folder which names releases of it asks for. ``unread``: files with
    requirements that cannot be read."""

    of: Mapping[str, tuple[VersionPin, ...]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    def counting(self) -> dict[str, VersionPin]:
        """By package, what counts where nothing is installed: one release before several, an extra where nothing else
        names the package and all extras that do ask for the same."""
        allowing = {package: [pin for pin in pins if pin.allowed] for package, pins in self.of.items()}
        return {package: _counts(pins) for package, pins in allowing.items() if pins}


def read_project_pins(folders: FolderListing, where: Iterable[str], python: str = "") -> ProjectPins:
    """What the folders ``where`` ask for, the nearest first, for ``python`` (``3.11``; empty: the one of unhang)."""
    unread: list[str] = []
    read = [list(_of_folder(folders, folder, unread)) for folder in dict.fromkeys(where)]
    own = (pin for pins in read for pin in pins if pin.package == _OWN)
    extras = {canonicalize_name(one) for pin in own for one in pin.requirement.extras}
    version = {"python_version": python, "python_full_version": f"{python}.0"} if python else {}
    found: dict[str, list[VersionPin]] = {}
    for pins in read:
        settled = {package for package, told in found.items() if any(pin.allowed for pin in told)}
        for pin in pins:
            marker = pin.requirement.marker
            if pin.package not in (*settled, _OWN) and (marker is None or marker.evaluate(version)):
                is_asked = pin.role == "extra" and canonicalize_name(pin.extra) in extras
                found.setdefault(pin.package, []).append(replace(pin, role="needed") if is_asked else pin)
    return ProjectPins({package: tuple(pins) for package, pins in found.items()}, tuple(unread))


def without_login(url: str) -> str:
    """``url`` without the name and the password in front of its host."""
    return _LOGIN.sub("//", url)


def _counts(pins: list[VersionPin]) -> VersionPin:
    firm = [pin for pin in pins if pin.role != "extra"]
    if firm:
        return next((pin for pin in firm if pin.release), firm[0])
    return next((pin for pin in pins if not pin.release), pins[0])


def _of_folder(folders: FolderListing, folder: str, unread: list[str]) -> Iterator[VersionPin]:
    """Scripts first: they run after what a project declares, and what they install stays."""
    names = sorted(folders.names(folder) or ())
    for pattern, role, read in _READERS:
        for name in [name for name in names if fnmatch(name, pattern)][:MAX_FILES]:
            path = posixpath.join(folder, name)
            look = folders.read(path)
            try:
                pins = [] if look.found is None else list(read(folders, path, look.found))
            except (ValueError, yaml.YAMLError, configparser.Error, RecursionError):
                pins, look = [], replace(look, found=None)
            if look.found is None:
                unread.append(folders.shown_as_asked(path))
            yield from (replace(pin, role=role) if pin.role == "needed" else pin for pin in pins)


def _of_requirements(folders: FolderListing, path: str, text: str, deep: int = 3) -> Iterator[VersionPin]:
    for number, line in enumerate(text.splitlines(), 1):
        word = re.split(r"\s#|\s*--hash", line.strip())[0].rstrip("\\").strip()
        other = _OTHER_FILE.fullmatch(word)
        if other and deep:
            inner = posixpath.normpath(posixpath.join(posixpath.dirname(path), other[2]))
            pins = _of_requirements(folders, inner, folders.read(inner).found or "", deep - 1)
            yield from (replace(pin, role="limit") if other[1].strip("-")[0] == "c" else pin for pin in pins)
        elif word and (pin := _pin(folders, path, word, number)):
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
    """What ``install_requires`` is given, and texts of other lists and tuples that limit releases: those in a
    dictionary are extras, as is what ``install_requires`` does not name where it could be worked out."""
    program = parse_file(text)
    if isinstance(program, str):
        raise ValueError(program)
    nodes = list(walk(program.tree))
    given = [node.value for node in nodes if isinstance(node, ast.keyword) and node.arg == "install_requires"]
    texts = {id(one): one for value in given for one in _texts_in(value, program.tree)}
    needed = [pin for one in texts.values() if (pin := _pin(folders, path, str(one.value), one.lineno))]
    yield from needed
    names = {pin.package for pin in needed}
    pairs = (pair for node in nodes if isinstance(node, ast.Dict) for pair in zip(node.keys, node.values, strict=True))
    extras = {id(inner): str(getattr(key, "value", "?")) for key, value in pairs for inner in walk(value)}
    for node in nodes:
        for one in node.elts if isinstance(node, ast.List | ast.Tuple) else ():
            if isinstance(one, ast.Constant) and isinstance(one.value, str) and id(one) not in texts:
                pin = _pin(folders, path, one.value, one.lineno, extra=extras.get(id(node), ""))
                if pin and pin.allowed:
                    yield replace(pin, role="extra") if names and pin.package not in names else pin


def _texts_in(node: ast.expr | None, tree: ast.Module, deep: int = 4) -> Iterator[ast.Constant]:
    """Texts in a list, in a sum of lists, in what a name was given once, in ``[table["name"], …]``."""
    inner: Sequence[ast.expr | None] = ()
    match node:
        case ast.Constant(value=str()):
            yield node
        case ast.List(elts=inner) | ast.Tuple(elts=inner) | ast.Call(func=ast.Name(id="list" | "sorted"), args=inner):
            pass
        case ast.BinOp(left=left, right=right):
            inner = (left, right)
        case ast.Subscript(slice=one) | ast.Starred(value=one):
            inner = (one,)
        case ast.Name(id=name) if deep and len(assigned_values(tree, name)) == 1:
            inner, deep = assigned_values(tree, name), deep - 1
    for expression in inner:
        yield from _texts_in(expression, tree, deep)


def _of_setup_cfg(folders: FolderListing, path: str, text: str) -> Iterator[VersionPin]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.read_string(text)
    for line in parser.get("options", "install_requires", fallback="").splitlines():
        yield from _found_in(folders, path, text, [line])
    extras = parser.items("options.extras_require") if parser.has_section("options.extras_require") else []
    for name, lines in extras:
        yield from _found_in(folders, path, text, lines.splitlines(), extra=name)


def _of_pyproject(folders: FolderListing, path: str, text: str) -> Iterator[VersionPin]:
    tree: Mapping[str, Any] = tomli.loads(text)
    project, tool = _table(tree.get("project")), _table(tree.get("tool"))
    yield from _found_in(folders, path, text, _texts(project.get("dependencies")))
    extras = (*_table(project.get("optional-dependencies")).items(), *_table(tree.get("dependency-groups")).items())
    for extra, lines in extras:
        yield from _found_in(folders, path, text, _texts(lines), extra=extra)
    poetry = _table(_table(tool.get("poetry")).get("dependencies"))
    for name, told in poetry.items():
        optional = "?" if _table(told).get("optional") else ""
        yield from _found_in(folders, path, text, [_of_poetry(name, told)], written=f"{name} =", extra=optional)


def _of_poetry(name: str, told: Any) -> str:
    """``torch = "2.5.1"`` is that release; a caret or a tilde keeps the first or the first two numbers."""
    version = str(_table(told).get("version", "") if isinstance(told, Mapping) else told).removeprefix("*")
    if version[:1] in ("^", "~") and version[1:2].isdigit():
        kept = 1 if version[0] == "^" and version[1] != "0" else 2
        version = f">={version[1:]},=={'.'.join(version[1:].split('.')[:kept])}.*"
    marker = f"; {_table(told)['markers']}" if _table(told).get("markers") else ""
    return f"{name}{'==' if version[:1].isdigit() else ''}{version}{marker}"


def _of_conda(folders: FolderListing, path: str, text: str) -> Iterator[VersionPin]:
    wanted = _table(yaml.safe_load(text)).get("dependencies")
    for one in wanted if isinstance(wanted, list) else ():
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


def _of_lock(folders: FolderListing, path: str, text: str) -> Iterator[VersionPin]:
    """uv's, Poetry's and PDM's; what they lock in several releases, for several machines, is left out."""
    found: dict[str, list[tuple[str, int]]] = {}
    line, at = 1, 0
    for one in _LOCKED.finditer(text):
        line, at = line + text.count("\n", at, one.start()), one.start()
        found.setdefault(one[1], []).append((one[2], line))
    if not found and "[[package]]" in text:
        raise ValueError(path)
    for name, told in found.items():
        if len(told) == 1 and (pin := _pin(folders, path, f"{name}=={told[0][0]}", told[0][1])):
            yield pin


def _of_pipfile_lock(folders: FolderListing, path: str, text: str) -> Iterator[VersionPin]:
    for name, told in _table(_table(json.loads(text)).get("default")).items():
        yield from _found_in(folders, path, text, [f"{name}{_table(told).get('version', '')}"], written=f'"{name}": {{')


def _found_in(
    folders: FolderListing, path: str, text: str, wanted: Iterable[str], *, written: str = "", extra: str = ""
) -> Iterator[VersionPin]:
    """Each of ``wanted``, on the first line of ``text`` that holds it as it is ``written``."""
    for one in wanted:
        line = text.count("\n", 0, max(text.find(written or one.strip()), 0)) + 1
        if pin := _pin(folders, path, one, line, extra=extra):
            yield pin


def _pin(folders: FolderListing, path: str, word: str, line: int, *, extra: str = "") -> VersionPin | None:
    own = _EXTRAS.fullmatch(word)
    try:
        requirement = Requirement(f"own[{own[1]}]" if own else word)
    except InvalidRequirement:
        return None
    name, place = canonicalize_name(requirement.name), folders.shown_as_asked(path)
    package = _OWN if own else _OTHER_NAMES.get(name, name)
    pin = VersionPin(package, requirement, place, line, "extra" if extra else "needed", extra)
    return None if name == "python" else pin


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


_READERS: tuple[tuple[str, Role, Any], ...] = (
    ("*.sh", "choice", _of_scripts),
    ("Dockerfile*", "choice", _of_scripts),
    ("requirements.txt", "needed", _of_requirements),
    ("requirements[!.]*.txt", "choice", _of_requirements),
    ("pyproject.toml", "needed", _of_pyproject),
    ("setup.cfg", "needed", _of_setup_cfg),
    ("setup.py", "needed", _of_setup),
    ("[a-z]*.lock", "limit", _of_lock),  # uv, Poetry, PDM
    ("Pipfile.lock", "limit", _of_pipfile_lock),
    ("environment*.y*ml", "limit", _of_conda),
)
