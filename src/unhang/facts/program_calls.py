"""Which functions of a program a call leads to, over all of its files. By names, classes and imports; nothing is run.

What a name holds only when the program runs stays unresolved: then nothing is said to be called.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from unhang.evidence.items import SourceFile
from unhang.facts.program import Function, Program, call_name, dotted, own_nodes, parse_program
from unhang.facts.program_definitions import Class, Defined, is_abstract
from unhang.facts.program_modules import Made, Modules, ModuleScope
from unhang.facts.program_values import annotation_of, assigned_to, bound_to, inner_functions, members_of, types_in

_MOST_DEEP = 6
_STARTERS = {"spawn", "start_processes", "Process", "Thread", "submit", "partial", "map", "run_in_executor", "launch"}
_PROPERTIES = {"property", "cached_property"}
_KEEP_MEMBERS = {"enumerate", "list", "tuple", "sorted", "reversed", "values", "items", "copy", "get", "next", "iter"}
_OF_CONTAINERS = frozenset(name for kind in (str, list, dict, set, tuple) for name in dir(kind))


class ProgramCalls:
    """Definitions of all ``files``, and where calls lead."""

    def __init__(self, files: Iterable[SourceFile]) -> None:
        self.defined: list[Defined] = []
        self.of_node: dict[ast.AST, Defined] = {}
        self._classes: dict[str, list[Class]] = {}
        self._methods: dict[str, list[Defined]] = {}
        self._properties: dict[str, list[Defined]] = {}
        self._targets: dict[ast.Call, list[Defined]] = {}
        self._attributes: dict[tuple[Class, str], list[Class]] = {}
        self._back: dict[tuple[Defined, int], list[Class]] = {}
        self._named: dict[tuple[str, Defined, int], list[Class]] = {}
        self._modules = Modules()
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

    @cached_property
    def passed(self) -> Mapping[tuple[Defined, str], Sequence[Defined]]:
        """Functions that are given to a parameter of another."""
        found: dict[tuple[Defined, str], dict[Defined, None]] = {}
        handed: dict[tuple[Defined, str], list[tuple[Defined, str]]] = {}
        for one in self.defined:
            for call in one.calls:
                for target, names in self.arguments(call, one):
                    for name, value in names.items():
                        if isinstance(value, ast.Name | ast.Attribute):
                            given = self._functions_of(value, one, 2)
                            found.setdefault((target, name), {}).update(dict.fromkeys(given))
                        if isinstance(value, ast.Name) and value.id in one.parameters:
                            handed.setdefault((one, value.id), []).append((target, name))
        for _ in range(_MOST_DEEP):
            for source, targets in handed.items():
                for key in targets:
                    found.setdefault(key, {}).update(found.get(source, {}))
        return {key: tuple(functions) for key, functions in found.items()}

    def arguments(self, call: ast.Call, here: Defined) -> Iterator[tuple[Defined, dict[str, ast.expr]]]:
        """The functions that ``call`` leads to, with what their parameters get; also ``Process(target=f, args=…)``."""
        for target in self.called(call, here):
            yield target, dict(bound_to(target.parameters, call.args, call.keywords))
        if call_name(call) in _STARTERS:
            words = {word.arg: word.value for word in call.keywords}
            started = words.get("target") or (call.args[0] if call.args else None)
            given = words.get("args")
            plain = given.elts if isinstance(given, ast.Tuple | ast.List) else call.args[1:]
            for target in self._functions_of(started, here, 3) if started is not None else ():
                names = target.parameters[1:] if call_name(call) in ("spawn", "start_processes") else target.parameters
                yield target, dict(bound_to(names, plain, []))

    def called(self, call: ast.Call, here: Defined) -> list[Defined]:
        """The functions that ``call`` in ``here`` leads to."""
        if call not in self._targets:
            self._targets[call] = list(dict.fromkeys(self._functions_of(call.func, here, _MOST_DEEP)))
        return self._targets[call]

    def given(self, call: ast.Call, here: Defined) -> Sequence[Defined]:
        """The functions that are handed to the parameter that ``call`` calls."""
        name = getattr(call.func, "id", "")
        return self.passed.get((here, name), ()) if name in here.parameters else ()

    def perhaps(self, call: ast.Call, here: Defined) -> bool:
        """Whether the name that is called holds a function of the program on one way only."""
        name = getattr(call.func, "id", "")
        given = [value for value in assigned_to(here.node, name) if value is not None] if name else []
        return len(given) > 1 and any(not self._functions_of(value, here, _MOST_DEEP) for value in given)

    def made(self, call: ast.Call, here: Defined) -> Class | None:
        """The class of the program that ``call`` makes an instance of; None for every other call."""
        return self._class_named(call.func, here)

    def outside(self, node: ast.expr, here: Defined) -> str:
        """The full name of what the program imports and does not define itself: ``torch.distributed.barrier``."""
        name = dotted(node)
        return self._modules.outside(name, here.file.path) if name and name[0] != "." else ""

    def referred(self, node: ast.expr, here: Defined) -> list[Defined | Class]:
        """The functions or the class that a name stands for."""
        kind = self._class_named(node, here)
        return [kind] if kind is not None else list(self._functions_of(node, here, 1))

    def external_base(self, kind: Class, deep: int = _MOST_DEEP) -> bool:
        """Whether a library stands behind the class, which calls its methods by names of its own."""
        for base in kind.node.bases:
            above = self._class_named(base, self.of_node[self.tree_of(kind)])
            if above is None:
                if dotted(base).rpartition(".")[2] not in ("object", "ABC", "Protocol", "Enum", "Generic", ""):
                    return True
            elif deep and self.external_base(above, deep - 1):
                return True
        return False

    def derives_from(self, kind: Class, names: frozenset[str], deep: int = _MOST_DEEP) -> bool:
        """Whether a class of one of these names stands among the bases, own or of a library."""
        if deep <= 0:
            return False
        if names & set(kind.bases) or kind.name in names:
            return True
        above = (self._class_named(base, self.of_node[self.tree_of(kind)]) for base in kind.node.bases)
        return any(one is not None and one is not kind and self.derives_from(one, names, deep - 1) for one in above)

    def lineage(self, kind: Class, deep: int = _MOST_DEEP) -> Iterator[Class]:
        """A class, and those of the program above it."""
        yield kind
        for base in kind.node.bases if deep else ():
            above = self._class_named(base, self.of_node[self.tree_of(kind)])
            if above is not None and above is not kind:
                yield from self.lineage(above, deep - 1)

    def kinds_of(self, node: ast.expr | None, here: Defined) -> list[Class]:
        """Classes of the program that ``node`` may be an instance of."""
        return self._classes_of(node, here, _MOST_DEEP)

    def property_of(self, node: ast.Attribute, here: Defined) -> list[Defined]:
        """The functions that are run where ``node`` is read."""
        every = self._properties.get(node.attr, [])
        if not every or not isinstance(node.ctx, ast.Load):
            return []
        kinds = self._classes_of(node.value, here, _MOST_DEEP)
        found = [method for kind in kinds for method in self._methods_of(kind, node.attr) if method in every]
        return list(dict.fromkeys(found)) or (every if len(every) == 1 and not kinds else [])

    # -- building

    def _read(self, file: SourceFile, program: Program) -> None:
        scope = ModuleScope(file.path, program.tree)
        self._modules.add(scope)
        methods: dict[ast.AST, Class] = {}
        for kind in scope.classes:
            bases = tuple(dotted(base).rpartition(".")[2] for base in kind.bases)
            made = Class(kind, file, bases)
            self._classes.setdefault(kind.name, []).append(made)
            scope.found[kind] = made
            methods |= {inner: made for inner in kind.body if isinstance(inner, Function)}
        for function in program.owners:
            one = Defined(file, program, function, methods.get(function))
            self.defined.append(one)
            self.of_node[function] = one
            if isinstance(function, ast.Module):
                continue
            if one.owner is None:
                scope.found[function] = one
                continue
            self._methods.setdefault(function.name, []).append(one)
            one.owner.methods[function.name] = one
            if any(dotted(how).rpartition(".")[2] in _PROPERTIES for how in function.decorator_list):
                self._properties.setdefault(function.name, []).append(one)

    def tree_of(self, kind: Class) -> ast.Module:
        """The file a class stands in."""
        return self._modules.scopes[kind.file.path].tree

    # -- following names

    def _functions_of(self, node: ast.expr, here: Defined, deep: int) -> list[Defined]:
        if deep <= 0:
            return []
        if isinstance(node, ast.IfExp):
            return [*self._functions_of(node.body, here, deep), *self._functions_of(node.orelse, here, deep)]
        if isinstance(node, ast.Name):
            return self._named_function(node.id, here, deep)
        if not isinstance(node, ast.Attribute):
            return []
        direct = self._modules.look_up(dotted(node), here.file.path)
        if direct is not None:
            return self._as_functions(direct)
        if isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super" and here.owner:
            return [one for one in [self._inherited(here.owner, node.attr, _MOST_DEEP)] if one is not None]
        kinds = self._classes_of(node.value, here, deep - 1)
        if kinds:
            return [one for kind in kinds for one in self._methods_of(kind, node.attr)]
        return self._only_method(node, here)

    def _only_method(self, node: ast.Attribute, here: Defined) -> list[Defined]:
        """The one method of that name in the program, where name or owner tell it apart."""
        only = self._methods.get(node.attr, [])
        if len(only) != 1 or node.attr in _OF_CONTAINERS or self.outside(node, here):
            return []
        kind = only[0].owner
        owner = dotted(node.value).rpartition(".")[2].strip("_").replace("_", "").lower()
        alike = bool(owner) and kind is not None and (owner in kind.name.lower() or kind.name.lower() in owner)
        return list(only) if alike or "_" in node.attr.strip("_") else []

    def _as_functions(self, found: object) -> list[Defined]:
        if isinstance(found, Defined):
            return [found]
        made = self._method(found, "__init__") if isinstance(found, Class) else None
        return [made] if made is not None else []

    def _named_function(self, name: str, here: Defined, deep: int) -> list[Defined]:
        for scope in reversed(here.scopes[1:]):
            inner = [one for one in inner_functions(scope) if one.name == name]
            if inner:
                return [self.of_node[inner[-1]]]
            bound = [value for value in assigned_to(scope, name) if value is not None]
            if bound:
                around = self.of_node[scope]
                return [one for value in bound for one in self._functions_of(value, around, deep - 1)]
        return self._as_functions(self._modules.look_up(name, here.file.path))

    def _class_named(self, node: ast.expr, here: Defined) -> Class | None:
        if not isinstance(node, ast.Name | ast.Attribute):
            return None
        found = self._modules.look_up(dotted(node), here.file.path)
        if isinstance(found, Class):
            return found
        if isinstance(node, ast.Name) and found is None and not self.outside(node, here):
            inner = [kind for kind in self._classes.get(node.id, ()) if kind.file is here.file]
            return inner[0] if len(inner) == 1 else None
        return None

    def _method(self, kind: Class, name: str, deep: int = _MOST_DEEP) -> Defined | None:
        return kind.methods.get(name) or self._inherited(kind, name, deep)

    def _inherited(self, kind: Class, name: str, deep: int) -> Defined | None:
        if deep <= 0:
            return None
        module = self.of_node[self.tree_of(kind)]
        above = (self._class_named(base, module) for base in kind.node.bases)
        found = (self._method(one, name, deep - 1) for one in above if one is not None and one is not kind)
        return next((one for one in found if one is not None), None)

    def _methods_of(self, kind: Class, name: str) -> list[Defined]:
        one = self._method(kind, name)
        if one is not None and not is_abstract(one):
            return [one]
        return [method for derived in self.derived.get(kind.name, ()) if (method := derived.methods.get(name))]

    @cached_property
    def derived(self) -> Mapping[str, Sequence[Class]]:
        """Classes of the program by the names of their bases."""
        found: dict[str, list[Class]] = {}
        for kinds in self._classes.values():
            for kind in kinds:
                for base in kind.bases:
                    found.setdefault(base, []).append(kind)
        return found

    def _classes_of(self, node: ast.expr | None, here: Defined, deep: int) -> list[Class]:
        if deep <= 0 or node is None:
            return []
        if isinstance(node, ast.IfExp):
            return [*self._classes_of(node.body, here, deep), *self._classes_of(node.orelse, here, deep)]
        if isinstance(node, ast.Await):
            return self._classes_of(node.value, here, deep)
        if inner := members_of(node):
            return list(dict.fromkeys(kind for one in inner for kind in self._classes_of(one, here, deep - 1)))
        if isinstance(node, ast.Call):
            return self._classes_of_result(node, here, deep)
        if isinstance(node, ast.Name):
            return self._classes_of_name(node.id, here, deep)
        if isinstance(node, ast.Attribute):
            owners = self._classes_of(node.value, here, deep - 1)
            if not owners and node.attr in self._modules.every_made:
                return self._classes_of_made(dotted(node), here, deep)
            found = (kind for owner in owners for kind in self._of_attribute(owner, node.attr, deep - 1))
            return list(dict.fromkeys(found))
        return []

    def _classes_of_result(self, node: ast.Call, here: Defined, deep: int) -> list[Class]:
        if kind := self.made(node, here):
            return [kind]
        if call_name(node) in _KEEP_MEMBERS:
            of_it = isinstance(node.func, ast.Attribute) and (not node.args or call_name(node) == "get")
            behind = [node.func.value] if of_it and isinstance(node.func, ast.Attribute) else node.args[:1]
            return self._classes_of(behind[0], here, deep - 1) if behind else []
        back = [kind for one in self._functions_of(node.func, here, deep - 1) for kind in self._returned(one, deep)]
        return list(dict.fromkeys(back))

    def _classes_of_name(self, name: str, here: Defined, deep: int) -> list[Class]:
        if (name, here, deep) not in self._named:
            self._named[name, here, deep] = self._classes_named(name, here, deep)
        return self._named[name, here, deep]

    def _classes_named(self, name: str, here: Defined, deep: int) -> list[Class]:
        if name in ("self", "cls"):
            owner = next((one for s in reversed(here.scopes[1:]) if (one := self.of_node[s].owner)), None)
            return [owner] if owner is not None else []
        for scope in reversed(here.scopes):
            around = self.of_node[scope]
            told = self._annotated(annotation_of(scope, name), around)
            values = assigned_to(scope, name)
            if told or values:
                return told or [kind for value in values for kind in self._classes_of(value, around, deep - 1)]
        return self._classes_of_made(name, here, deep)

    def _classes_of_made(self, name: str, here: Defined, deep: int) -> list[Class]:
        """Of what another file makes when it is read, and this one imports."""
        found = self._modules.look_up(name, here.file.path)
        if not isinstance(found, Made) or found.path == here.file.path:
            return []
        return self._classes_of_name(found.name, self.of_node[self._modules.scopes[found.path].tree], deep - 1)

    def _of_attribute(self, owner: Class, name: str, deep: int) -> list[Class]:
        if (owner, name) in self._attributes:
            return self._attributes[owner, name]
        self._attributes[owner, name] = []  # a circle adds nothing
        found: list[Class] = []
        for method in owner.methods.values():
            for value in assigned_to(method.node, f"self.{name}"):
                found += self._classes_of(value, method, deep)
        module = self.of_node[self.tree_of(owner)]
        if not found:
            found = self._annotated(annotation_of(owner.node, name), module)
        if not found and (getter := owner.methods.get(name)) is not None:
            found = self._annotated(getattr(getter.node, "returns", None), getter)
        if not found:
            above = (self._class_named(base, module) for base in owner.node.bases)
            found = [k for base in above if base is not None for k in self._of_attribute(base, name, deep - 1)]
        self._attributes[owner, name] = list(dict.fromkeys(found))
        return self._attributes[owner, name]

    def _annotated(self, annotation: ast.expr | None, here: Defined) -> list[Class]:
        """The class an annotation names, and those derived from it."""
        for node in types_in(annotation):
            kind = self._class_named(node, here)
            if kind is not None:
                return [kind, *self.derived.get(kind.name, ())]
        return []

    def _returned(self, one: Defined, deep: int) -> list[Class]:
        if (one, deep) not in self._back:
            self._back[one, deep] = self._classes_returned(one, deep)
        return self._back[one, deep]

    def _classes_returned(self, one: Defined, deep: int) -> list[Class]:
        back = [node.value for node in own_nodes(one.node) if isinstance(node, ast.Return)]
        found = [kind for value in back for kind in self._classes_of(value, one, deep - 1)]
        return found or self._annotated(getattr(one.node, "returns", None), one)
