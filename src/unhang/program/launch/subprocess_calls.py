"""What a console script starts in turn: the call of ``subprocess`` or ``os.exec…`` in its source, read and not run."""

from __future__ import annotations

import ast
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from unhang.findings import Source
from unhang.program.launch.console_scripts import EntryPoint
from unhang.program.launch.shell.partly_known_text import is_known
from unhang.program.launch.shell.session import FollowSession
from unhang.program.launch.shell.state import ShellState
from unhang.sentences import say

_STARTS = frozenset(
    ("run", "Popen", "call", "check_call", "check_output", "system", "execvp", "execvpe", "execv", "execlp", "popen")
)
_LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "deepspeed")
MAX_DEPTH = 12


def find_started_command(
    session: FollowSession, state: ShellState, entry: EntryPoint, path: str, text: str, arguments: Sequence[str]
) -> list[str] | None:
    """The command that the source at ``path`` starts with ``arguments``; None where it starts no launcher."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    reader = _Reader(session, state, entry, path, list(arguments), text)
    reader.learn(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) in _STARTS and node.args:
            words = reader.words(node.args[-1] if _name(node.func).startswith("exec") else node.args[0])
            if words and any(_is_launcher(word) for word in words[:4]):
                return words
    return None


def _is_launcher(word: str) -> bool:
    return any(word == one or word.endswith(f"/{one}") for one in _LAUNCHERS)


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@dataclass(slots=True)
class _Reader:
    """Values of expressions, as far as they are known; marks for the rest."""

    session: FollowSession
    state: ShellState
    entry: EntryPoint
    path: str
    arguments: list[str]
    text: str
    assigned: dict[str, ast.expr] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    popped: bool = False
    depth: int = 0

    def learn(self, tree: ast.Module) -> None:
        """Names of modules, names assigned once, and whether the verb is taken off the arguments."""
        package = self.entry.module.rpartition(".")[0]
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                base = ".".join(one for one in (package if node.level else "", node.module or "") if one)
                self.modules.update({alias.asname or alias.name: f"{base}.{alias.name}" for alias in node.names})
            elif isinstance(node, ast.Import):
                self.modules.update({alias.asname or alias.name: alias.name for alias in node.names})
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.assigned.setdefault(node.targets[0].id, node.value)
            elif isinstance(node, ast.Call) and ast.unparse(node).startswith("sys.argv.pop("):
                self.popped = True

    def words(self, node: ast.expr) -> list[str] | None:
        """A list of words, or a text that is parted."""
        if isinstance(node, ast.Name) and node.id in self.assigned and self._deeper():
            return self.words(self.assigned[node.id])
        if isinstance(node, ast.List | ast.Tuple):
            return [word for one in node.elts for word in self._several(one)]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.words(node.left), self.words(node.right)
            return None if left is None else [*left, *(right if right is not None else [self._mark(node.right)])]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
            return self.value(node.func.value).split()
        if isinstance(node, ast.Subscript | ast.Attribute) and "sys.argv" in ast.unparse(node):
            return self._argv(node)
        if isinstance(node, ast.Constant | ast.JoinedStr) or (
            isinstance(node, ast.Call) and "format" in _name(node.func)
        ):
            return self.value(node).split()
        return None

    def _several(self, node: ast.expr) -> Iterator[str]:
        if isinstance(node, ast.Starred):
            yield from self.words(node.value) or [self._mark(node.value)]
        else:
            yield self.value(node)

    def _argv(self, node: ast.expr) -> list[str]:
        said = ast.unparse(node)
        start = said.partition("sys.argv[")[2].partition(":")[0]
        first = int(start) - 1 if start.isdigit() else 0
        return (self.arguments[1:] if self.popped else self.arguments)[max(0, first) :]

    def value(self, node: ast.expr) -> str:
        """A text."""
        kinds: Mapping[type, Callable[[ast.expr], str | None]] = {
            ast.Constant: lambda one: str(one.value) if isinstance(one, ast.Constant) else None,
            ast.JoinedStr: self._joined,
            ast.Name: self._named,
            ast.Attribute: self._attribute,
            ast.Call: self._called,
        }
        known = kinds.get(type(node))
        found = known(node) if known is not None and self._deeper() else None
        self.depth = max(0, self.depth - 1)
        return self._mark(node) if found is None else found

    def _deeper(self) -> bool:
        self.depth += 1
        return self.depth < MAX_DEPTH

    def _mark(self, node: ast.expr) -> str:
        because = say("the program computes it when it starts")
        source = Source(self.path, getattr(node, "lineno", None))
        return self.session.parts.mark(ast.unparse(node), because, source)

    def _joined(self, node: ast.expr) -> str | None:
        assert isinstance(node, ast.JoinedStr)
        return "".join(self.value(one.value if isinstance(one, ast.FormattedValue) else one) for one in node.values)

    def _named(self, node: ast.expr) -> str | None:
        assert isinstance(node, ast.Name)
        return self.value(self.assigned[node.id]) if node.id in self.assigned else None

    def _attribute(self, node: ast.expr) -> str | None:
        assert isinstance(node, ast.Attribute)
        if ast.unparse(node) == "sys.executable":
            return "python"
        if node.attr == "__file__" and isinstance(node.value, ast.Name) and node.value.id in self.modules:
            files = list(self.entry.files(self.modules[node.value.id]))
            return next((path for path in files if self.session.read(path) is not None), None)
        return None

    def _called(self, node: ast.expr) -> str | None:
        assert isinstance(node, ast.Call)
        said = ast.unparse(node.func)
        if said in ("os.getenv", "os.environ.get", "getenv", "environ.get") and isinstance(node.args[0], ast.Constant):
            held = self.state.value(str(node.args[0].value))
            if isinstance(held, str) and held:
                return held
            return self.value(node.args[1]) if len(node.args) > 1 else None
        if said == "str" and node.args:
            return self.value(node.args[0])
        if said.endswith("device_count"):
            return "gpu"  # torchrun's own word for as many as there are
        if said.endswith(".join") and node.args:
            words = self.words(node.args[0])
            return None if words is None else " ".join(words)
        if said.endswith(".format") and isinstance(node.func, ast.Attribute):
            return self._formatted(self.value(node.func.value), node.keywords)
        return None

    def _formatted(self, form: str, keywords: Sequence[ast.keyword]) -> str | None:
        values = {word.arg: self.value(word.value) for word in keywords if word.arg}
        if not is_known(form):
            return None
        said = ""
        try:
            for literal, name, _, _ in string.Formatter().parse(form):
                said += literal + (values.get(name, "") if name else "")
        except ValueError:
            return None
        return said
