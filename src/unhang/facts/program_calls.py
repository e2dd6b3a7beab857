"""Which functions of a program a call leads to, over all of its files. By names, classes and imports; nothing is run.

What a name holds only when the program runs stays unresolved: then nothing is said to be called.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from unhang.evidence.items import SourceFile
from unhang.facts.program import Function, Program, Scope, call_name, dotted, own_nodes, parse_program, statements

_MOST_DEEP = 6
_OF_CONTAINERS = frozenset(name for kind in (str, list, dict, set, tuple) for name in dir(kind))


@dataclass(frozen=True, slots=True, eq=False)
class Defined:
    """A function of the program, or what a file does when it is read (``node`` is the module then)."""

    file: SourceFile = field(repr=False)
    program: Program = field(repr=False)
    node: Scope
    owner: str = ""
    """The class it is a method of."""

    @property
    def name(self) -> str:
        """As the source spells it."""
        return getattr(self.node, "name", "<module>")

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes around its statements, its own last."""
        return (*self.program.owners[self.node], self.node)

    @property
    def calls(self) -> Sequence[ast.Call]:
        """Calls it makes itself, by line."""
        return _calls(self.node)


@dataclass(slots=True)
class _Class:
    node: ast.ClassDef
    file: SourceFile
    bases: tuple[str, ...]
    methods: dict[str, Defined] = field(default_factory=dict)


class ProgramCalls:
    """Definitions of all ``files``, and where calls lead."""

    def __init__(self, files: Iterable[SourceFile]) -> None:
        self.defined: list[Defined] = []
        self.classes: dict[str, _Class] = {}
        self._functions: dict[str, list[Defined]] = {}
        self._methods: dict[str, list[Defined]] = {}
        self._imported: dict[str, dict[str, str]] = {}
        self._targets: dict[ast.Call, list[Defined]] = {}
        for file in files:
            program = parse_program(file.text)
            if not isinstance(program, str):
                self._read(file, program)

    @cached_property
    def callers(self) -> dict[Defined, list[tuple[Defined, ast.Call]]]:
        """Every call that leads to a function, with the function it stands in."""
        found: dict[Defined, list[tuple[Defined, ast.Call]]] = {}
        for one in self.defined:
            for call in one.calls:
                for target in self.called(call, one):
                    found.setdefault(target, []).append((one, call))
        return found

    def called(self, call: ast.Call, here: Defined) -> list[Defined]:
        """The functions that ``call`` in ``here`` leads to."""
        if call not in self._targets:
            self._targets[call] = self._functions_of(call.func, here, _MOST_DEEP)
        return self._targets[call]

    def made(self, call: ast.Call, here: Defined) -> str:
        """The class of the program that ``call`` makes an instance of; empty for every other call."""
        name = self._real(call_name(call), here)
        return name if name in self.classes else ""

    # -- building

    def _read(self, file: SourceFile, program: Program) -> None:
        methods: dict[ast.AST, str] = {}
        self._imported[file.path] = dict(_imported(program.tree))
        for statement in statements(program.tree):
            if not isinstance(statement, ast.ClassDef):
                continue
            bases = tuple(dotted(base).rpartition(".")[2] for base in statement.bases)
            self.classes.setdefault(statement.name, _Class(statement, file, bases))
            methods |= {inner: statement.name for inner in statement.body if isinstance(inner, Function)}
        for scope in program.owners:
            one = Defined(file, program, scope, methods.get(scope, ""))
            self.defined.append(one)
            if isinstance(scope, ast.Module):
                continue
            if not one.owner:
                self._functions.setdefault(scope.name, []).append(one)
                continue
            self._methods.setdefault(scope.name, []).append(one)
            if self.classes[one.owner].file is file:
                self.classes[one.owner].methods[scope.name] = one

    # -- following names

    def _real(self, name: str, here: Defined) -> str:
        return self._imported[here.file.path].get(name, name)

    def _functions_of(self, node: ast.expr, here: Defined, deep: int) -> list[Defined]:
        if deep <= 0:
            return []
        if isinstance(node, ast.IfExp):
            return [*self._functions_of(node.body, here, deep), *self._functions_of(node.orelse, here, deep)]
        if isinstance(node, ast.Name):
            return self._named_function(node.id, here, deep)
        if not isinstance(node, ast.Attribute):
            return []
        kinds = self._classes_of(node.value, here, deep - 1)
        if kinds:
            return [one for kind in kinds if (one := self._method(kind, node.attr)) is not None]
        only = self._methods.get(node.attr, [])
        return list(only) if len(only) == 1 and node.attr not in _OF_CONTAINERS else []

    def _named_function(self, name: str, here: Defined, deep: int) -> list[Defined]:
        bound = [value for value in _assigned(here.node, name) if value is not None]
        if bound:
            return [one for value in bound for one in self._functions_of(value, here, deep - 1)]
        real = self._real(name, here)
        if real in self.classes:
            made = self._method(real, "__init__")
            return [made] if made is not None else []
        found = self._functions.get(real, [])
        return [one for one in found if one.file is here.file] or found

    def _method(self, kind: str, name: str, deep: int = _MOST_DEEP) -> Defined | None:
        known = self.classes.get(kind)
        if known is None or deep <= 0:
            return None
        inherited = (self._method(base, name, deep - 1) for base in known.bases)
        return known.methods.get(name) or next((one for one in inherited if one is not None), None)

    def _classes_of(self, node: ast.expr | None, here: Defined, deep: int) -> list[str]:
        """Classes of the program that ``node`` may be an instance of."""
        if deep <= 0 or node is None:
            return []
        if isinstance(node, ast.IfExp):
            return [*self._classes_of(node.body, here, deep), *self._classes_of(node.orelse, here, deep)]
        if isinstance(node, ast.Call):
            if kind := self.made(node, here):
                return [kind]
            back = [kind for one in self._functions_of(node.func, here, deep - 1) for kind in self._returned(one, deep)]
            return list(dict.fromkeys(back))
        if isinstance(node, ast.Name):
            if node.id in ("self", "cls") and here.owner:
                return [here.owner]
            told = self._annotated(_annotation(here.node, node.id), here)
            values = _assigned(here.node, node.id)
            return told or [kind for value in values for kind in self._classes_of(value, here, deep - 1)]
        if isinstance(node, ast.Attribute):
            owners = self._classes_of(node.value, here, deep - 1)
            return list(
                dict.fromkeys(kind for owner in owners for kind in self._of_attribute(owner, node.attr, deep - 1))
            )
        return []

    def _of_attribute(self, owner: str, name: str, deep: int) -> list[str]:
        known = self.classes[owner]
        found: list[str] = []
        for method in known.methods.values():
            for value in _assigned(method.node, f"self.{name}"):
                found += self._classes_of(value, method, deep)
        body = next((one for one in known.methods.values()), None)
        if not found and body is not None:
            found = self._annotated(_annotation(known.node, name), body)
        return found or [
            kind for base in known.bases if base in self.classes for kind in self._of_attribute(base, name, deep - 1)
        ]

    def _annotated(self, annotation: ast.expr | None, here: Defined) -> list[str]:
        """The class an annotation names, and those derived from it."""
        name = self._real(dotted(annotation).rpartition(".")[2], here) if annotation is not None else ""
        if name not in self.classes:
            return []
        return [name, *(kind for kind, one in self.classes.items() if name in one.bases)]

    def _returned(self, one: Defined, deep: int) -> list[str]:
        back = [node.value for node in own_nodes(one.node) if isinstance(node, ast.Return)]
        found = [kind for value in back for kind in self._classes_of(value, one, deep - 1)]
        return found or self._annotated(getattr(one.node, "returns", None), one)


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((one.asname or one.name, one.name) for one in node.names)


@lru_cache(maxsize=8192)
def _calls(scope: Scope) -> Sequence[ast.Call]:
    found = [node for node in own_nodes(scope) if isinstance(node, ast.Call)]
    return sorted(found, key=lambda call: call.lineno)


@lru_cache(maxsize=8192)
def _assigned_in(scope: ast.AST) -> Mapping[str, Sequence[ast.expr | None]]:
    """Values that ``scope`` gives to names, also to ``self.x``."""
    found: dict[str, list[ast.expr | None]] = {}
    for node in own_nodes(scope):
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        for one in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(one, ast.Name | ast.Attribute):
                found.setdefault(dotted(one), []).append(node.value)
    return found


def _assigned(scope: ast.AST, name: str) -> Sequence[ast.expr | None]:
    return _assigned_in(scope).get(name, ())


def _annotation(scope: ast.AST, name: str) -> ast.expr | None:
    """The type that a parameter, or a field of a class, is said to have."""
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        every = (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs)
        return next((one.annotation for one in every if one.arg == name), None)
    body = scope.body if isinstance(scope, ast.ClassDef) else []
    fields = (one for one in body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name))
    return next((one.annotation for one in fields if getattr(one.target, "id", "") == name), None)
