"""What a module imports: statements, ``import_module("literal")``, tables of lazy packages. It is parsed, never run.

An import that is caught, that is for another Python or system, or that stands where the module is asked for first, is
one that a program goes on without.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TypeAlias

from unhang.program.syntax.syntax_tree import call_name, parse_file, statements, walk

_IMPORTERS = {"import_module", "__import__", "run_module"}
_RUNNERS = {"run_path", "exec_module", "exec"}
"""They run a file or a text, whose name or words only running tells."""
_LAZY = ("__getattr__", "_LazyModule", "LazyModule", "attach", "attach_stub")
AnyImport: TypeAlias = "ast.Import | ast.ImportFrom"
_ABSENT_IS_FINE = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
_OF_THE_MACHINE = {"version_info", "hexversion", "python_version", "python_version_tuple", "platform", "__version__"}
"""What a test asks of the interpreter, the system or a library's release, of which the program knows several."""


@dataclass(frozen=True, slots=True)
class ImportStatement:
    """``from .a.b import c, d``: ``module`` is ``a.b``, ``level`` 1, ``names`` c and d (a star is left out)."""

    module: str
    line: int
    level: int = 0
    names: tuple[str, ...] = ()
    optional: bool = False
    """The program goes on without it."""
    instead: tuple[ImportStatement, ...] = ()
    """Where one of these is there, it is not needed."""
    every: bool = False
    """Some module inside ``module``; which one is computed while it runs."""

    @property
    def name(self) -> str:
        """As it is written, dots of a relative import included."""
        return "." * self.level + self.module

    @property
    def package(self) -> str:
        """The first part of the name; empty for a relative import."""
        return "" if self.level else self.module.partition(".")[0]


def imports_of(tree: ast.Module, text: str) -> Iterator[ImportStatement]:
    """Every import in a module (``tree`` of ``text``), wherever it stands.

    One without a name and a level is computed and cannot be followed.
    """
    known = import_fallbacks(tree)
    for node in statements(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            others = known.get(id(node), ())
            instead = tuple(other for one in others or () for other in _named(one))
            yield from (replace(one, optional=others is None, instead=instead) for one in _named(node))
    if any(word in text for word in _IMPORTERS):
        calls = (node for node in walk(tree) if isinstance(node, ast.Call) and call_name(node) in _IMPORTERS)
        yield from (_called(call) for call in calls if call.args or call.keywords)
    if any(word in text for word in _RUNNERS):
        calls = (node for node in walk(tree) if isinstance(node, ast.Call) and _runs(node))
        yield from (ImportStatement("", call.lineno, every=True) for call in calls)
    if any(word in text for word in _LAZY) and _is_lazy(tree):
        yield from (ImportStatement(text, line, 1, optional=True) for text, line in _table(tree))


def _named(node: ast.Import | ast.ImportFrom) -> Iterator[ImportStatement]:
    if isinstance(node, ast.Import):
        yield from (ImportStatement(alias.name, node.lineno) for alias in node.names)
    else:
        names = tuple(alias.name for alias in node.names if alias.name != "*")
        yield ImportStatement(node.module or "", node.lineno, node.level, names)


def imported_files(text: str, folder: PurePosixPath) -> Iterator[str]:
    """Files below ``folder`` that ``text``, a module there or the script itself, may import; empty where unreadable."""
    program = parse_file(text)
    for one in () if isinstance(program, str) else imports_of(program.tree, text):
        parents = [folder, *folder.parents]
        start = parents[min(max(one.level - 1, 0), len(parents) - 1)]
        inner = [f"{one.module}.{name}" if one.module else name for name in one.names]
        for name in (one.module, *inner) if one.names else (one.module,):
            path = start / name.replace(".", "/") if name else start
            yield from (f"{path}.py", f"{path}/__init__.py") if name else (f"{path}/__init__.py",)


def _called(call: ast.Call) -> ImportStatement:
    """``import_module(…)``: a literal, ``f"models.{name}"`` or ``"models." + name``; else nothing to follow."""
    name = call.args[0] if call.args else call.keywords[0].value
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        module = name.value.lstrip(".")
        return ImportStatement(module, call.lineno, len(name.value) - len(module))
    before = _literal_start(name)
    module = before.rpartition(".")[0] if before.rpartition(".")[0].strip(".") else ""
    level = len(module) - len(module.lstrip("."))
    return ImportStatement(module.lstrip("."), call.lineno, level, every=True)


def _runs(call: ast.Call) -> bool:
    name = call_name(call)
    return name in _RUNNERS and (
        name != "exec" or isinstance(call.func, ast.Name)
    )  # pools and models have a method of that name


def _literal_start(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    while isinstance(node, ast.BinOp):
        node = node.left
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        node = node.func.value
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    return text.partition("{")[0].partition("%")[0]


def _is_lazy(tree: ast.Module) -> bool:
    """A package whose names are imported when they are asked for."""
    return any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body) or any(
        isinstance(node, ast.Call) and call_name(node) in _LAZY for node in walk(tree)
    )


def _table(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Texts in the tables of a lazy package that could be names of modules."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        for node in walk(statement):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                name = node.value.lstrip(".")
                if name and all(part.isidentifier() for part in name.split(".")):
                    yield name, node.lineno


def import_fallbacks(tree: ast.Module) -> dict[int, tuple[AnyImport, ...] | None]:
    """By the ``id`` of an import: what may stand in for it, or None where nothing has to. Others are needed."""
    found: dict[int, tuple[AnyImport, ...] | None] = {}
    for node in statements(tree):
        if isinstance(node, ast.Try) and any(_survives(handler) for handler in node.handlers):
            tried = _imports(node.body)
            _set(found, tried, None)
            for handler in node.handlers:
                _set(found, _imports(handler.body), tried)
        elif isinstance(node, ast.If) and _of_the_machine(node.test):
            _set(found, _imports(node.body), _imports(node.orelse))
            _set(found, _imports(node.orelse), _imports(node.body))
        elif isinstance(node, ast.If) and _asks_for_a_module(node.test):
            _set(found, (*_imports(node.body), *_imports(node.orelse)), None)
        elif isinstance(node, ast.With) and any(_suppresses(item.context_expr) for item in node.items):
            _set(found, _imports(node.body), None)
    return found


def _set(
    found: dict[int, tuple[AnyImport, ...] | None], imports: Sequence[AnyImport], instead: Sequence[AnyImport] | None
) -> None:
    """Outer statements come first: what stands in for an inner import stands beside what is known already."""
    for one in imports:
        known = found.get(id(one), ())
        found[id(one)] = None if not instead or known is None else (*known, *instead)


def _imports(block: Sequence[ast.stmt]) -> tuple[AnyImport, ...]:
    every = (node for statement in block for node in (statement, *statements(statement)))
    return tuple(node for node in every if isinstance(node, ast.Import | ast.ImportFrom))


def _survives(handler: ast.ExceptHandler) -> bool:
    if any(isinstance(statement, ast.Raise) for statement in handler.body):
        return False
    return handler.type is None or bool(_names(handler.type) & _ABSENT_IS_FINE)


def _suppresses(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and call_name(node) == "suppress" and bool(_names(node) & _ABSENT_IS_FINE)


def _of_the_machine(test: ast.expr) -> bool:
    return bool(_names(test) & _OF_THE_MACHINE)


def _asks_for_a_module(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) and call_name(node) == "find_spec" for node in walk(test))


def _names(node: ast.expr) -> set[str]:
    return {getattr(inner, "id", getattr(inner, "attr", "")) for inner in walk(node)}
