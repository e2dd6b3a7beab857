"""Commands that start a program of Python: the interpreter, launchers, and console scripts of libraries.

Which function a console script calls stands in the project in the folder, or in the script that was installed for it;
what it starts in turn, in a call of ``subprocess`` or ``os.exec…`` in its source, which is read and not run.
"""

from __future__ import annotations

import ast
import configparser
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tomli

from unhang.findings import Source
from unhang.knowledge.collectives import source_names
from unhang.knowledge.job.launch_commands import TrainingCommand, training_command
from unhang.program.launch.command_words import behind_python_options, launcher_words
from unhang.program.launch.shell.partly_known_text import is_known
from unhang.program.launch.shell.session import FollowSession, StartedCommand
from unhang.program.launch.shell.state import ShellState
from unhang.program.syntax.syntax_tree import dotted, last_name, parse_file, walk
from unhang.sentences import say

_NO_TRAINING = frozenset(("pip", "venv", "ensurepip", "json.tool", "http.server", "ray.scripts", "build", "compileall"))
_PLAIN = {
    *("mkdir", "cp", "mv", "rm", "ls", "ln", "sleep", "git", "wget", "curl", "tar", "date", "kill", "pip", "tee", "tr"),
    "sed",
}
"""Parts of the system that are in every script; looking for their source is in vain."""
_ENTRY = re.compile(r"\s*([\w.-]+)\s*=\s*([A-Za-z_][\w.]*)\s*:\s*([A-Za-z_][\w.]*)\s*(?:\[.*\])?\s*")
_SOURCES = ("", "src", "python", "lib")
MAX_ABOVE = 4


def program_words(session: FollowSession, command: StartedCommand, text: str | None) -> list[str] | None:
    """The words of ``command``, wrappers taken off, as what they come to in the end; ``text``: of the file they start.

    None where they start no program of Python.
    """
    first, *rest = command.words
    name = posixpath.basename(first)
    if not is_known(first):
        return _not_known(session, command, rest)
    if name.startswith("python") or name == "py":
        behind = behind_python_options(rest)
        trains = behind[:1] not in ([], ["-c"], ["-"]) and not (
            behind[0] == "-m" and behind[1:2] and behind[1] in _NO_TRAINING
        )
        return [first, *rest] if trains else None
    if launcher_words(command.words)[0] is not None:
        return [first, *rest]
    if name.endswith(".py") or (text is not None and "python" in text.partition("\n")[0]):
        return ["python", first, *rest]
    found = _console_script(session, command.state, name, rest)
    return [first, *rest] if found is None and command.source is None else found


def _not_known(session: FollowSession, command: StartedCommand, rest: list[str]) -> list[str] | None:
    """``$LAUNCHER train.py``."""
    at = next((at for at, word in enumerate(rest) if word.endswith(".py")), None)
    if at is None:
        return None
    written = session.parts.as_written(command.words[0])
    session.note(say("what {words} is, which starts {program}", words=written, program=rest[at]), command.source)
    return ["python", *rest[at:]]


def _console_script(session: FollowSession, state: ShellState, name: str, rest: list[str]) -> list[str] | None:
    row = training_command(name, rest[0] if rest else "")
    entry = _entry_point(session, state, name) if row is not None or name not in _PLAIN else None
    for path in entry.files() if entry is not None else ():
        text = session.read(path)
        if entry is not None and text is not None:
            found = _started_by(session, state, entry, path, text, rest)
            if found:
                return found
            break
    if row is not None:
        return _of_row(state, row, rest)
    return None if entry is None else ["python", "-m", entry.module, *rest]


def _of_row(state: ShellState, row: TrainingCommand, rest: list[str]) -> list[str]:
    module = row.module.replace("{verb}", rest[0])
    if row.launcher == "accelerate":
        return ["accelerate", "launch", "-m", module, *rest[1:]]
    count, nodes = (state.value(name) if name else None for name in (row.processes, row.nodes))
    if not isinstance(count, str) or not count:
        return [row.names[0], *rest] if row.launcher == "llamafactory" else ["python", "-m", module, *rest[1:]]
    several = ["--nnodes", nodes] if isinstance(nodes, str) and nodes else []
    return ["torchrun", *several, "--nproc_per_node", count, "-m", module, *rest[1:]]


# -- what a console script calls


@dataclass(frozen=True, slots=True)
class _EntryPoint:
    """The module whose function is called; ``roots``: folders in which it may lie."""

    module: str
    roots: tuple[str, ...]

    def files(self, module: str = "") -> Iterator[str]:
        """Where the source of ``module`` may be; default: that of the function."""
        path = (module or self.module).replace(".", "/")
        for root in self.roots:
            yield posixpath.normpath(posixpath.join(root, f"{path}.py"))
            yield posixpath.normpath(posixpath.join(root, path, "__init__.py"))


def _entry_point(session: FollowSession, state: ShellState, name: str) -> _EntryPoint | None:
    """What the command ``name`` calls; None where it is no console script of Python."""
    folder = state.folder
    for _ in range(MAX_ABOVE):
        found = _of_project(session, folder).get(name)
        if found is not None:
            roots = tuple(posixpath.join(folder, source) for source in _SOURCES)
            return _EntryPoint(found, roots)
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
    for node in _nodes(text):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from node.value.splitlines()


def _nodes(text: str) -> list[ast.AST]:
    """Every node of a source; none where it is no Python."""
    parsed = parse_file(text)
    return [] if isinstance(parsed, str) else list(walk(parsed.tree))


def _installed(session: FollowSession, state: ShellState, name: str) -> _EntryPoint | None:
    """The file that an installer wrote: ``from pkg.cli import main`` behind the first line with its Python."""
    path = state.value("PATH")
    folders = path.split(":") if isinstance(path, str) and "/" not in name else []
    for folder in folders:
        text = session.machine.read(f"{folder}/{name}").found if folder.startswith("/") else None
        if text is not None:
            is_python = "python" in text.partition("\n")[0] and len(text) <= 1 << 16
            return _of_script(session, text, posixpath.dirname(folder)) if is_python else None
    return None


def _of_script(session: FollowSession, text: str, prefix: str) -> _EntryPoint | None:
    imports = [node for node in _nodes(text) if isinstance(node, ast.ImportFrom)]
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
    return _EntryPoint(module, tuple(roots))


# -- what that starts in turn


def _started_by(
    session: FollowSession, state: ShellState, entry: _EntryPoint, path: str, text: str, arguments: Sequence[str]
) -> list[str] | None:
    """The command that the source at ``path`` starts with ``arguments``; None where it starts no launcher."""
    reader = _Reader(session, state, entry, path, list(arguments))
    nodes = _nodes(text)
    for node in nodes:
        reader.learn(node)
    for node in nodes:
        if isinstance(node, ast.Call) and last_name(node.func) in source_names("starts_program") and node.args:
            words = reader.words(node.args[-1] if last_name(node.func).startswith("exec") else node.args[0])
            if words and any(launcher_words(words[at:])[0] is not None for at in range(min(len(words), 4))):
                return words
    return None


@dataclass(slots=True)
class _Reader:
    """Values of expressions, as far as they are known; marks for the rest."""

    session: FollowSession
    state: ShellState
    entry: _EntryPoint
    path: str
    arguments: list[str]
    assigned: dict[str, ast.expr] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    popped: bool = False
    """Whether the verb is taken off the arguments."""

    def learn(self, node: ast.AST) -> None:
        """Names of modules, and the first value that a name is given."""
        match node:
            case ast.ImportFrom(module=module, names=names, level=level):
                package = self.entry.module.rpartition(".")[0] if level else ""
                base = ".".join(one for one in (package, module) if one)
                self.modules.update({alias.asname or alias.name: f"{base}.{alias.name}" for alias in names})
            case ast.Import(names=names):
                self.modules.update({alias.asname or alias.name: alias.name for alias in names})
            case ast.Assign(targets=[ast.Name(id=name), *_], value=value):
                self.assigned.setdefault(name, value)
            case ast.Call(func=function) if dotted(function) == "sys.argv.pop":
                self.popped = True

    def words(self, node: ast.expr) -> list[str] | None:
        """A list of words, or a text that is parted."""
        match node:
            case ast.Name(id=name) if name in self.assigned:
                value = self.assigned.pop(name)  # a name that is made of itself is not known
                words = self.words(value)
                self.assigned[name] = value
                return words
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return [word for one in elements for word in self._several(one)]
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                first, rest = self.words(left), self.words(right)
                return None if first is None else [*first, *([self._mark(right)] if rest is None else rest)]
            case ast.Call(func=ast.Attribute(value=text, attr="split")):
                return self.text(text).split()
            case ast.Attribute() | ast.Subscript() if "sys.argv" in ast.unparse(node):
                start = ast.unparse(node).partition("sys.argv[")[2].partition(":")[0]
                given = self.arguments[1:] if self.popped else self.arguments
                return given[max(0, int(start) - 1) if start.isdigit() else 0 :]
            case ast.Constant() | ast.JoinedStr() | ast.Call(func=ast.Attribute(attr="format")):
                return self.text(node).split()
        return None

    def _several(self, node: ast.expr) -> list[str]:
        if isinstance(node, ast.Starred):
            return self.words(node.value) or [self._mark(node.value)]
        return [self.text(node)]

    def text(self, node: ast.expr) -> str:
        """A text, with marks for what is not known."""
        match node:
            case ast.Constant(value=value):
                return str(value)
            case ast.JoinedStr(values=values):
                return "".join(self.text(one.value if isinstance(one, ast.FormattedValue) else one) for one in values)
            case ast.Name(id=name) if name in self.assigned:
                given = self.assigned.pop(name)
                text = self.text(given)
                self.assigned[name] = given
                return text
            case ast.Attribute(value=ast.Name(id="sys"), attr="executable"):
                return "python"
            case ast.Attribute(value=ast.Name(id=name), attr="__file__") if name in self.modules:
                files = self.entry.files(self.modules[name])
                return next((path for path in files if self.session.read(path) is not None), self._mark(node))
            case ast.Call(func=function, args=arguments, keywords=keywords):
                found = self._called(function, arguments, keywords)
                return self._mark(node) if found is None else found
        return self._mark(node)

    def _mark(self, node: ast.expr) -> str:
        source = Source(self.path, node.lineno)
        return self.session.parts.mark(ast.unparse(node), say("the program computes it when it starts"), source)

    def _called(self, function: ast.expr, arguments: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> str | None:
        match dotted(function), arguments:
            case (("os.getenv" | "os.environ.get" | "getenv" | "environ.get"), [ast.Constant(value=name), *default]):
                held = self.state.value(str(name))
                return held if isinstance(held, str) and held else self.text(default[0]) if default else None
            case "str", [text]:
                return self.text(text)
        name = last_name(function)
        if name.endswith("device_count"):
            return "gpu"  # torchrun's own word for as many as there are
        if name == "join" and arguments:
            words = self.words(arguments[0])
            return None if words is None else " ".join(words)
        if name == "format" and isinstance(function, ast.Attribute):
            values = {word.arg: self.text(word.value) for word in keywords if word.arg}
            form = self.text(function.value)
            return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], ""), form) if is_known(form) else None
        return None
