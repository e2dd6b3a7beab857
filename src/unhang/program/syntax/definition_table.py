"""Functions and classes of a program by name, and how its classes descend from each other."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from unhang.evidence.items import SourceFile
from unhang.program.syntax.definitions import ClassDefinition, FunctionDefinition, is_abstract
from unhang.program.syntax.name_resolution import ModuleScope, ModuleTable
from unhang.program.syntax.syntax_tree import Function, ParsedFile, call_name, dotted, own_nodes

_MAX_ABOVE = 6
_PROPERTIES = {"property", "cached_property"}
_OF_NO_CLASS = ("object", "ABC", "Protocol", "Enum", "Generic", "")


class DefinitionTable:
    """Functions and classes of all files, by syntax node and by name."""

    def __init__(self, files: Iterable[tuple[SourceFile, ParsedFile]]) -> None:
        self.defined: list[FunctionDefinition] = []
        self.of_node: dict[ast.AST, FunctionDefinition] = {}
        self.classes: dict[str, list[ClassDefinition]] = {}
        self.methods: dict[str, list[FunctionDefinition]] = {}
        self.properties: dict[str, list[FunctionDefinition]] = {}
        self.modules = ModuleTable()
        self._above: dict[ClassDefinition, Sequence[ClassDefinition]] = {}
        self._heirs: dict[ClassDefinition, Sequence[ClassDefinition]] = {}
        for file, program in files:
            self._read(file, program)

    def _read(self, file: SourceFile, program: ParsedFile) -> None:
        scope = ModuleScope(file.path, program.tree)
        self.modules.add(scope)
        methods: dict[ast.AST, ClassDefinition] = {}
        for kind in scope.classes:
            bases = tuple(dotted(base).rpartition(".")[2] for base in kind.bases)
            made = ClassDefinition(kind, file, bases)
            self.classes.setdefault(kind.name, []).append(made)
            scope.found[kind] = made
            methods |= {inner: made for inner in kind.body if isinstance(inner, Function)}
        for function in program.owners:
            one = FunctionDefinition(file, program, function, methods.get(function))
            self.defined.append(one)
            self.of_node[function] = one
            if isinstance(function, ast.Module):
                continue
            if one.owner is None:
                scope.found[function] = one
                continue
            self.methods.setdefault(function.name, []).append(one)
            one.owner.methods[function.name] = one
            if any(dotted(how).rpartition(".")[2] in _PROPERTIES for how in function.decorator_list):
                self.properties.setdefault(function.name, []).append(one)

    @cached_property
    def sites(self) -> Mapping[str, Sequence[tuple[FunctionDefinition, ast.Call]]]:
        """Calls by the last name of what they call."""
        found: dict[str, list[tuple[FunctionDefinition, ast.Call]]] = {}
        for one in self.defined:
            for call in one.calls:
                found.setdefault(call_name(call), []).append((one, call))
        return found

    @cached_property
    def derived(self) -> Mapping[str, Sequence[ClassDefinition]]:
        """Classes by the names of their bases."""
        found: dict[str, list[ClassDefinition]] = {}
        for kinds in self.classes.values():
            for kind in kinds:
                for base in kind.bases:
                    found.setdefault(base, []).append(kind)
        return found

    @cached_property
    def _spoken_of(self) -> Collection[str]:
        """Names that are used anywhere but as the base of a class."""
        bases = {base for kinds in self.classes.values() for kind in kinds for base in kind.node.bases}
        nodes = (node for one in self.defined for node in own_nodes(one.node) if isinstance(node, ast.expr))
        plain = (node for node in nodes if isinstance(node, ast.Name | ast.Attribute) and node not in bases)
        return {node.id if isinstance(node, ast.Name) else node.attr for node in plain}

    def module_of(self, kind: ClassDefinition) -> FunctionDefinition:
        """What the file of a class does when it is read."""
        return self.of_node[self.modules.scopes[kind.file.path].tree]

    def class_named(self, node: ast.expr, here: FunctionDefinition) -> ClassDefinition | None:
        """The class of the program that a name stands for."""
        if not isinstance(node, ast.Name | ast.Attribute):
            return None
        found = self.modules.look_up(dotted(node), here.file.path)
        if isinstance(found, ClassDefinition):
            return found
        if isinstance(node, ast.Name) and found is None and not self.outside(node, here):
            inner = [kind for kind in self.classes.get(node.id, ()) if kind.file is here.file]
            return inner[0] if len(inner) == 1 else None
        return None

    def outside(self, node: ast.expr, here: FunctionDefinition) -> str:
        """The full name of what the program imports and does not define itself: ``torch.distributed.barrier``."""
        name = dotted(node)
        return self.modules.outside(name, here.file.path) if name and name[0] != "." else ""

    # -- classes

    def above(self, kind: ClassDefinition) -> Sequence[ClassDefinition]:
        """The bases of a class that are of the program."""
        if kind not in self._above:
            bases = (self.class_named(base, self.module_of(kind)) for base in kind.node.bases)
            self._above[kind] = [one for one in bases if one is not None and one is not kind]
        return self._above[kind]

    def lineage(self, kind: ClassDefinition, deep: int = _MAX_ABOVE) -> Iterator[ClassDefinition]:
        """A class, and those of the program above it."""
        yield kind
        for one in self.above(kind) if deep else ():
            yield from self.lineage(one, deep - 1)

    def possible_classes(self, kind: ClassDefinition) -> Sequence[ClassDefinition]:
        """Classes of which ``self`` may be in a method of ``kind``: of those below it, and of it, the ones that the
        program speaks of."""
        if kind not in self._heirs:
            self._heirs[kind] = [one for one in self._below(kind) if one.name in self._spoken_of] or [kind]
        return self._heirs[kind]

    def _below(self, kind: ClassDefinition) -> Iterable[ClassDefinition]:
        found = {kind: None}
        waiting = [kind]
        while waiting:
            new = [one for one in self.derived.get(waiting.pop().name, ()) if one not in found]
            found |= dict.fromkeys(new)
            waiting += new
        return found

    def share_base(self, methods: Iterable[FunctionDefinition]) -> bool:
        """Whether the classes of these methods descend from one class of the program."""
        every = (one for method in methods if method.owner is not None for one in self.lineage(method.owner))
        return len({one for one in every if not self.above(one)}) == 1

    def external_base(self, kind: ClassDefinition) -> bool:
        """Whether a library stands behind the class, which calls its methods by names of its own."""
        for one in self.lineage(kind):
            known = len(self.above(one))
            foreign = [base for base in one.bases if base not in _OF_NO_CLASS]
            if len(foreign) > known:
                return True
        return False

    def derives_from(self, kind: ClassDefinition, names: frozenset[str]) -> bool:
        """Whether a class of one of these names stands among the bases, own or of a library."""
        return any(one.name in names or names & set(one.bases) for one in self.lineage(kind))

    def method(self, kind: ClassDefinition, name: str) -> FunctionDefinition | None:
        """The method of that name, own or inherited."""
        return next((found for one in self.lineage(kind) if (found := one.methods.get(name)) is not None), None)

    def inherited(self, kind: ClassDefinition, name: str) -> FunctionDefinition | None:
        """The method of that name that ``super()`` leads to."""
        return next((found for one in self.above(kind) if (found := self.method(one, name)) is not None), None)

    def methods_of(self, kind: ClassDefinition, name: str) -> Sequence[FunctionDefinition]:
        """The method of that name, or those of the classes below where it is abstract."""
        one = self.method(kind, name)
        if one is not None and not is_abstract(one):
            return [one]
        return [method for derived in self.derived.get(kind.name, ()) if (method := derived.methods.get(name))]
