"""What a console script starts in turn: the call of ``subprocess`` or ``os.exec…`` in its source, read and not run."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from unhang.findings import Source
from unhang.program.launch.command_words import launcher_words
from unhang.program.launch.console_scripts import EntryPoint, python_nodes
from unhang.program.launch.shell.partly_known_text import is_known
from unhang.program.launch.shell.session import FollowSession
from unhang.program.launch.shell.state import ShellState
from unhang.program.syntax.syntax_tree import dotted, last_name
from unhang.sentences import say

_STARTS = frozenset(
    ("run", "Popen", "call", "check_call", "check_output", "system", "execvp", "execvpe", "execv", "execlp", "popen")
)


def find_started_command(
    session: FollowSession, state: ShellState, entry: EntryPoint, path: str, text: str, arguments: Sequence[str]
) -> list[str] | None:
    """The command that the source at ``path`` starts with ``arguments``; None where it starts no launcher."""
    reader = _Reader(session, state, entry, path, list(arguments))
    nodes = python_nodes(text)
    for node in nodes:
        reader.learn(node)
    for node in nodes:
        if isinstance(node, ast.Call) and last_name(node.func) in _STARTS and node.args:
            words = reader.words(node.args[-1] if last_name(node.func).startswith("exec") else node.args[0])
            if words and any(launcher_words(words[at:])[0] is not None for at in range(min(len(words), 4))):
                return words
    return None


@dataclass(slots=True)
class _Reader:
    """Values of expressions, as far as they are known; marks for the rest."""

    session: FollowSession
    state: ShellState
    entry: EntryPoint
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
