"""What a program itself demands of releases before it does anything: ``assert timm.__version__ == "0.3.2"``, a test
with ``raise`` behind it, ``check_min_version("4.57.0")``. Only what is run in any case counts."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from unhang.program.imports.certain_imports import CertainModule, certain_modules
from unhang.program.imports.launch_entry import LaunchEntry
from unhang.program.syntax.assignments import assigned_values
from unhang.program.syntax.evaluation import UNKNOWN, Evaluation
from unhang.program.syntax.syntax_tree import Function, dotted, expression_text, own_nodes

_MAKES_VERSION = {"version.parse", "Version", "LooseVersion", "StrictVersion", "parse_version"}
_ASKS_RELEASE = {"importlib.metadata.version", "importlib_metadata.version"}
_AT_LEAST, _REQUIRES = "check_min_version", {"require_version", "require_version_core", "pkg_resources.require"}
_ENDS = {"exit", "sys.exit", "quit"}


@dataclass(frozen=True, slots=True)
class VersionCheck:
    """The check on ``line`` of ``path``: it passes where ``formula`` holds; ``installed``: releases by package."""

    path: str
    line: int
    formula: str
    holds: bool
    installed: tuple[tuple[str, str], ...]


def version_checks(start: LaunchEntry, release: Callable[[str], str]) -> Iterator[VersionCheck]:
    """Checks that are run in any case and whose outcome is known. ``release``: of a module or package, empty where none
    is installed."""
    for module in certain_modules(start):
        if "version" not in module.text:
            continue
        for statement in _run_on_top(module, is_main=module.path == start.script):
            one = _Releases(module, release)
            formula, holds = one.checked(statement)
            if holds is not None and one.used:
                path = start.finder.folders.shown(module.path)
                yield VersionCheck(path, statement.lineno, formula, holds, tuple(one.used.items()))


def _run_on_top(module: CertainModule, *, is_main: bool) -> Iterator[ast.stmt]:
    """Statements at the top; of the script also what stands straight under its ``__name__`` and in what that calls."""
    functions = {one.name: one.body for one in module.program.tree.body if isinstance(one, Function)}
    waiting = list(module.program.tree.body)
    for statement in waiting:
        if any(isinstance(inner, ast.Return) for inner in (statement, *own_nodes(statement))):
            return
        if is_main and isinstance(statement, ast.If) and "__name__" in expression_text(statement.test):
            waiting += statement.body
        elif is_main and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            waiting += functions.pop(dotted(statement.value.func), [])
        yield statement


class _Releases(Evaluation):
    """Works out what a module says of releases. ``used``: those it looked up."""

    def __init__(self, module: CertainModule, release: Callable[[str], str]) -> None:
        self.module, self.release = module, release
        self.used: dict[str, str] = {}
        self._deep = 0

    def checked(self, statement: ast.stmt) -> tuple[str, bool | None]:
        """How the check reads, and whether it passes; None where it is none, or is not known."""
        match statement:
            case ast.Assert(test=test):
                return expression_text(test), self.truth(test)
            case ast.If(test=test, body=body) if any(_ends(one) for one in body):
                truth = self.truth(test)
                return f"not ({expression_text(test)})", None if truth is None else not truth
            case ast.Expr(value=ast.Call(args=[ast.Constant(value=str(wanted)), *_]) as call):
                return expression_text(call), self._demanded(self._full_name(call.func), wanted)
        return "", None

    def _demanded(self, name: str, wanted: str) -> bool | None:
        """What ``check_min_version`` and ``require_version`` of Hugging Face's libraries do."""
        package, _, last = name.rpartition(".")
        if last == _AT_LEAST:
            wanted = f"{package.partition('.')[0]}>={wanted}"
        elif last not in _REQUIRES and name not in _REQUIRES:
            return None
        try:
            asked = Requirement(wanted)
            found = _version(self._looked_up(asked.name))
        except InvalidRequirement:
            return None
        return asked.specifier.contains(found, prereleases=True) if isinstance(found, Version) else None

    def held(self, node: ast.expr) -> Any:
        """A release, a name that was given one once, a part of one."""
        if isinstance(node, ast.Call):
            return self.called(node)
        module, _, attribute = self._full_name(node).rpartition(".")
        if attribute == "__version__" and module:
            text = self._looked_up(module.partition(".")[0])
            return _TorchVersion(text) if text is not UNKNOWN and module.partition(".")[0] == "torch" else text
        values = assigned_values(self.module.program.tree, node.id) if isinstance(node, ast.Name) else ()
        if len(values) != 1 or values[0] is None or self._deep > 4:
            return UNKNOWN
        self._deep += 1
        value = self.value(values[0])
        self._deep -= 1
        return value

    def called(self, node: ast.Call) -> Any:
        """Versions made of texts, ``startswith``; what metadata say."""
        name = self._full_name(node.func)
        each = [self.value(one) for one in node.args]
        if node.keywords or any(one is UNKNOWN for one in each):
            return UNKNOWN
        if name in _ASKS_RELEASE and len(each) == 1:
            return self._looked_up(str(each[0]))
        if len(each) == 1 and any(f".{name}".endswith(f".{one}") for one in _MAKES_VERSION):
            return _version(each[0])
        owner = self.value(node.func.value) if isinstance(node.func, ast.Attribute) else UNKNOWN
        if name.endswith(".startswith") and isinstance(owner, str) and len(each) == 1:
            return owner.startswith(tuple(each[0]) if isinstance(each[0], list) else str(each[0]))
        return UNKNOWN

    def _looked_up(self, name: str) -> Any:
        found = "" if name in self.module.own else self.release(name)
        if not found:
            return UNKNOWN
        self.used[name] = found
        return found

    def _full_name(self, node: ast.expr) -> str:
        """``timm.__version__`` of ``t.__version__`` after ``import timm as t``; what is not imported is empty."""
        head, _, rest = dotted(node).partition(".")
        return f"{imported}{rest and '.'}{rest}" if (imported := self._imported(head)) else ""

    def _imported(self, name: str) -> str:
        for node in self.module.program.tree.body:
            for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
                if isinstance(node, ast.ImportFrom) and (alias.asname or alias.name) == name:
                    return "" if node.level else f"{node.module}.{alias.name}"
                if isinstance(node, ast.Import) and name in (alias.asname, alias.name.partition(".")[0]):
                    return alias.name if alias.asname else name
        return ""


def _as_release(does: Callable[[Any, Any], bool]) -> Callable[[str, object], bool]:
    def compared(one: str, other: object) -> bool:
        mine, theirs = Version(one.partition("+")[0]), _version(other)
        if theirs is UNKNOWN or (mine == Version(theirs.public) and does not in (operator.ge, operator.lt)):
            raise TypeError(other)
        return does(mine, theirs)

    return compared


class _TorchVersion(str):
    """``torch.__version__``: compared as a release, also with texts; of the build, which pip need not know, nothing is
    said."""

    __eq__, __ne__ = _as_release(operator.eq), _as_release(operator.ne)
    __lt__, __le__ = _as_release(operator.lt), _as_release(operator.le)
    __gt__, __ge__ = _as_release(operator.gt), _as_release(operator.ge)
    __hash__ = str.__hash__


def _version(text: Any) -> Any:
    try:
        return Version(text)
    except (InvalidVersion, TypeError):
        return UNKNOWN


def _ends(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return dotted(statement.value.func) in _ENDS
    return isinstance(statement, ast.Raise)
