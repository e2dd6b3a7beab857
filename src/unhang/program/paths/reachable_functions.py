"""Which functions a launch comes to, and on which way: calls, names that are handed on, hooks of what is made."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Sequence

from unhang.program.syntax.call_graph import CallGraph
from unhang.program.syntax.definitions import ClassDefinition, FunctionDefinition
from unhang.program.syntax.syntax_tree import Function, dotted, own_nodes

CallPath = tuple[tuple[FunctionDefinition, int, str], ...]
_MAX_SHOWN = 8
_PLAIN_DECORATORS = {"dataclass", "total_ordering", "final", "runtime_checkable", "define", "frozen", "attrs", "unique"}


def reachable_functions(calls: CallGraph, entered: Sequence[str]) -> dict[FunctionDefinition, CallPath]:
    """Each function that is reached, with the calls that lead there from the start.

    Every file is read when it is imported, so what it does then is reached too.
    """
    return _Reaching(calls, entered).found


class _Reaching:
    def __init__(self, calls: CallGraph, entered: Sequence[str]) -> None:
        self.calls = calls
        self.made: dict[ClassDefinition, CallPath] = {}
        self.named: dict[str, CallPath] = {}
        """Methods that are called of what is not known, by name."""
        modules = [one for one in calls.defined if isinstance(one.node, ast.Module)]
        modules.sort(key=lambda one: one.file.path not in entered)
        self.found: dict[FunctionDefinition, CallPath] = dict.fromkeys(modules, ())
        self.waiting = deque(modules)
        if not any(_starts(one.node) for one in modules if one.file.path in entered):
            for one in calls.defined:  # something else calls into this file
                if one.file.path in entered:
                    self._reach(one, ())
        while self.waiting:
            here = self.waiting.popleft()
            for node in own_nodes(here.node):
                self._use(node, here)

    def _reach(self, one: FunctionDefinition, way: CallPath) -> None:
        if one not in self.found:
            self.found[one] = way[-_MAX_SHOWN:]
            self.waiting.append(one)

    def _use(self, node: ast.AST, here: FunctionDefinition) -> None:
        if isinstance(node, ast.Call):
            self._call(node, here)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            way = (*self.found[here], (here, node.lineno, dotted(node)))
            for found in self.calls.referred(node, here):
                if isinstance(found, ClassDefinition):
                    self._make(found, way)
                elif found is not here:
                    self._reach(found, way)
            for getter in self.calls.property_of(node, here) if isinstance(node, ast.Attribute) else ():
                self._reach(getter, way)
        elif isinstance(node, ast.ClassDef):
            self._registered(node, here)
        elif isinstance(node, Function) and node.decorator_list:
            self._reach(self.calls.of_node[node], (*self.found[here], (here, node.lineno, node.name)))

    def _registered(self, node: ast.ClassDef, here: FunctionDefinition) -> None:
        """A decorator may hand the class to a registry, which makes it by its name."""
        if all(_is_plain(how) for how in node.decorator_list):
            return
        for found in self.calls.referred(ast.Name(node.name, ast.Load()), here):
            if isinstance(found, ClassDefinition):
                self._make(found, (*self.found[here], (here, node.lineno, node.name)))

    def _call(self, node: ast.Call, here: FunctionDefinition) -> None:
        targets = self.calls.called(node, here)
        way = (*self.found[here], (here, node.lineno, dotted(node.func)))
        for target in targets:
            self._reach(target, way)
        kind = self.calls.made(node, here)
        if kind is not None:
            self._make(kind, way)
        elif isinstance(node.func, ast.Attribute) and (not targets or targets[0].owner is not None):
            self._name(node.func.attr, way)
        elif getattr(node.func, "id", "") == "getattr" and not isinstance(node.args[-1], ast.Constant):
            self._name("*", way)

    def _name(self, name: str, way: CallPath) -> None:
        if name in self.named:
            return
        self.named[name] = way
        for kind in list(self.made):
            for method in kind.methods.values():
                if method.name == name or (name == "*" and kind.bases):
                    self._reach(method, way)

    def _make(self, kind: ClassDefinition, way: CallPath) -> None:
        """What runs once an instance is made: special methods, hooks that a library or the program calls by name."""
        if kind in self.made:
            return
        self.made[kind] = way
        hooks = self.calls.table.external_base(kind) or ("*" in self.named and bool(kind.bases))
        for method in kind.methods.values():
            if hooks or method.name in self.named or method.name.startswith("__"):
                self._reach(method, self.named.get(method.name, way))
        for above in self.calls.table.above(kind):
            self._make(above, way)


def _is_plain(decorator: ast.expr) -> bool:
    """It leaves the class where it is."""
    name = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator).rpartition(".")[2]
    return name in _PLAIN_DECORATORS


def _starts(tree: ast.AST) -> bool:
    """Whether the file does anything when it is run, but to define and import."""
    body = getattr(tree, "body", [])
    plain = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Assign, ast.AnnAssign)
    return any(
        not isinstance(one, plain) and not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
        for one in body
    )
