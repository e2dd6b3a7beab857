"""What a name or an expression of a program may hold: its functions, instances of its classes, and these classes.

Followed through assignments, tables, what functions return, attributes, annotations and what callers give; nothing is
run. What a name holds only when the program runs stays unresolved.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import NamedTuple, TypeAlias, TypeVar, cast

from unhang.program.syntax.assignments import (
    annotated_types,
    assigned_values,
    bind_arguments,
    find_annotation,
    inner_functions,
    possible_members,
    returned_values,
)
from unhang.program.syntax.definition_table import DefinitionTable
from unhang.program.syntax.definitions import ClassDefinition, FunctionDefinition, is_abstract
from unhang.program.syntax.name_resolution import ModuleValue
from unhang.program.syntax.syntax_tree import call_name, dotted

_MAX_DEPTH = 40
_MAX_CALLS = 12
"""A function with more callers is given too much for anything to follow from it."""
_MAX_FOUND = 24
"""What may be any of more is not followed."""
_KEEP_MEMBERS = {"enumerate", "list", "tuple", "sorted", "reversed", "values", "items", "copy", "get", "next", "iter"}
_OF_CONTAINERS = frozenset(name for kind in (str, list, dict, set, tuple) for name in dir(kind))
_OF_TORCH = {"state_dict", "load_state_dict", "zero_grad"}
"""What optimizers, scalers and schedulers have as well as models."""

_SAME_ITEMS = {"enumerate", "tqdm", "iter", "track", "auto"}


class MakingCall(NamedTuple):
    """``call``, which stands in ``here``, makes a value."""

    call: ast.Call
    here: FunctionDefinition


_Found = TypeVar("_Found", FunctionDefinition, ClassDefinition, MakingCall)
_Asked = TypeVar("_Asked")
_Question: TypeAlias = "Callable[[ValueResolver, _Asked, FunctionDefinition], Iterable[_Found]]"


def _once(
    question: _Question[_Asked, _Found],
) -> Callable[[ValueResolver, _Asked, FunctionDefinition], Sequence[_Found]]:
    """Each question is followed once; one that leads back to itself adds nothing."""

    @wraps(question)
    def ask(self: ValueResolver, what: _Asked, here: FunctionDefinition) -> Sequence[_Found]:
        key = (question, what, here)
        answers = cast("dict[object, Sequence[_Found]]", self.answers)
        if key in answers or self.deep >= _MAX_DEPTH:
            return answers.get(key, ())
        answers[key] = ()
        self.deep += 1
        found = list(dict.fromkeys(question(self, what, here)))
        self.deep -= 1
        answers[key] = found if len(found) <= _MAX_FOUND else ()
        return answers[key]

    return ask


class ValueResolver:
    """Follows names of one program."""

    def __init__(self, table: DefinitionTable) -> None:
        self.table = table
        self.answers: dict[object, Sequence[object]] = {}
        self.deep = 0

    # -- functions

    @_once
    def functions(self, node: ast.expr, here: FunctionDefinition) -> Iterable[FunctionDefinition]:
        """Functions of the program that ``node`` may hold, ``__init__`` for a class."""
        if isinstance(node, ast.Name):
            return self._functions_named(node.id, here)
        if isinstance(node, ast.Call):
            return self._functions_made(node, here)
        if isinstance(node, ast.Attribute):
            return self.direct(node, here) or self._methods(node, here)
        return (one for member in possible_members(node) for one in self.functions(member, here))

    def direct(self, node: ast.expr, here: FunctionDefinition) -> Sequence[FunctionDefinition]:
        """Functions that a name stands for by definition or import, without following what it holds."""
        if isinstance(node, ast.Name):
            inner = self._inner(node.id, here)
            return inner or self._defined(self.table.modules.look_up(node.id, here.file.path))
        if not isinstance(node, ast.Attribute):
            return ()
        found = self._defined(self.table.modules.look_up(dotted(node), here.file.path))
        if not found and isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super":
            above = self.table.inherited(here.owner, node.attr) if here.owner is not None else None
            return (above,) if above is not None else ()
        return found

    def only_family(self, node: ast.Attribute, here: FunctionDefinition) -> Sequence[FunctionDefinition]:
        """The methods of that name where all stand in one family of classes, and name or owner tell it apart."""
        every = self.table.methods.get(node.attr, ())
        if not every or node.attr in _OF_CONTAINERS or self.table.outside(node, here):
            return ()
        owner = dotted(node.value).rpartition(".")[2].strip("_").replace("_", "").lower()
        names = [one.owner.name.lower() for one in every if one.owner is not None]
        alike = bool(owner) and any(owner in name or name in owner for name in names)
        spoken = "_" in node.attr.strip("_") and node.attr not in _OF_TORCH
        if isinstance(node.value, ast.Attribute) and here.owner in [one.owner for one in every]:
            return ()  # ``self.repo.push_to_hub()`` in a class with a method of that name: it keeps another one's
        if not (alike or spoken) or not self.table.share_base(every):
            return ()
        return [one for one in every if not is_abstract(one)]

    def _defined(self, found: object) -> Sequence[FunctionDefinition]:
        if isinstance(found, FunctionDefinition):
            return (found,)
        made = self.table.method(found, "__init__") if isinstance(found, ClassDefinition) else None
        return (made,) if made is not None else ()

    def _inner(self, name: str, here: FunctionDefinition) -> Sequence[FunctionDefinition]:
        for scope in reversed(here.scopes[1:]):
            inner = [one for one in inner_functions(scope) if one.name == name]
            if inner:
                return (self.table.of_node[inner[-1]],)
            if any(value is not None for value in assigned_values(scope, name)):
                return ()
        return ()

    @_once
    def _functions_named(self, name: str, here: FunctionDefinition) -> Iterable[FunctionDefinition]:
        if inner := self._inner(name, here):
            return inner
        for scope in reversed(here.scopes[1:]):
            bound = [value for value in assigned_values(scope, name) if value is not None]
            if bound:
                around = self.table.of_node[scope]
                return (one for value in bound for one in self.functions(value, around))
        found = self.table.modules.look_up(name, here.file.path)
        if isinstance(found, ModuleValue):
            return self._functions_kept(found)
        return self._defined(found)

    def _functions_kept(self, made: ModuleValue) -> Iterable[FunctionDefinition]:
        module = self.table.modules.scopes[made.path].tree
        values = (value for value in assigned_values(module, made.name) if value is not None)
        return (one for value in values for one in self.functions(value, self.table.of_node[module]))

    def _functions_made(self, node: ast.Call, here: FunctionDefinition) -> Iterable[FunctionDefinition]:
        """Functions that a call gives back: those that a maker of functions returns, or what ``partial`` keeps."""
        if call_name(node) == "partial" and node.args:
            return self.functions(node.args[0], here)
        if call_name(node) == "get" and isinstance(node.func, ast.Attribute):
            return self.functions(node.func.value, here) if isinstance(node.func.value, ast.Name) else ()
        return (
            one
            for maker in self.functions(node.func, here)
            for value in returned_values(maker.node)
            for one in self.functions(value, maker)
        )

    def _methods(self, node: ast.Attribute, here: FunctionDefinition) -> Iterable[FunctionDefinition]:
        kinds = self.instances(node.value, here) or self.held(node.value, here)
        if not kinds:
            return self.only_family(node, here)
        return (one for kind in kinds for one in self.table.methods_of(kind, node.attr))

    # -- instances

    @_once
    def instances(self, node: ast.expr | None, here: FunctionDefinition) -> Iterable[ClassDefinition]:
        """Classes of which ``node`` may be an instance; a container counts as what is in it."""
        if isinstance(node, ast.Await):
            return self.instances(node.value, here)
        if isinstance(node, ast.Call):
            return self._instances_made(node, here)
        if isinstance(node, ast.Name):
            return self._instances_named(node.id, here)
        if isinstance(node, ast.Attribute):
            owners = self.instances(node.value, here)
            if not owners and node.attr in self.table.modules.every_made:
                return self._instances_kept(dotted(node), here)
            return (kind for owner in owners for kind in self._of_attribute(node.attr, owner))
        inner = possible_members(node) if node is not None else ()
        return (kind for one in inner for kind in self.instances(one, here))

    def _instances_made(self, node: ast.Call, here: FunctionDefinition) -> Iterable[ClassDefinition]:
        if held := self.held(node.func, here):
            return held
        if call_name(node) in _KEEP_MEMBERS:
            of_it = isinstance(node.func, ast.Attribute) and (not node.args or call_name(node) == "get")
            behind = [node.func.value] if of_it and isinstance(node.func, ast.Attribute) else node.args[:1]
            return self.instances(behind[0], here) if behind else ()
        return (kind for one in self.functions(node.func, here) for kind in self._returned(one))

    @_once
    def _instances_named(self, name: str, here: FunctionDefinition) -> Iterable[ClassDefinition]:
        if name in ("self", "cls"):
            owner = next((one for s in reversed(here.scopes[1:]) if (one := self.table.of_node[s].owner)), None)
            return self.table.possible_classes(owner) if owner is not None else ()
        for scope in reversed(here.scopes):
            around = self.table.of_node[scope]
            told = self._annotated(find_annotation(scope, name), around)
            values = assigned_values(scope, name)
            if told or values:
                return told or (kind for value in values for kind in self.instances(value, around))
            if name in around.parameters:
                return (kind for value, by in self._given_for(name, around) for kind in self.instances(value, by))
        return self._instances_kept(name, here)

    def _instances_kept(self, name: str, here: FunctionDefinition) -> Iterable[ClassDefinition]:
        """Of what another file makes when it is read, and this one imports."""
        found = self.table.modules.look_up(name, here.file.path)
        if not isinstance(found, ModuleValue) or found.path == here.file.path:
            return ()
        return self._instances_named(found.name, self.table.of_node[self.table.modules.scopes[found.path].tree])

    def _of_attribute(self, name: str, owner: ClassDefinition) -> Iterable[ClassDefinition]:
        """Of what ``self.name`` holds in an instance of ``owner``."""
        for kind in self.table.lineage(owner):
            found = [*self._set_in(name, kind)]
            if found:
                return found
        return ()

    def _set_in(self, name: str, kind: ClassDefinition) -> Iterator[ClassDefinition]:
        found = False
        for method in kind.methods.values():
            for value in assigned_values(method.node, f"self.{name}"):
                for one in self.instances(value, method):
                    found = True
                    yield one
        if not found:
            getter = kind.methods.get(name)
            yield from self._annotated(find_annotation(kind.node, name), self.table.module_of(kind)) or (
                self._annotated(getattr(getter.node, "returns", None), getter) if getter is not None else ()
            )

    def _annotated(self, annotation: ast.expr | None, here: FunctionDefinition) -> Sequence[ClassDefinition]:
        """The class an annotation names, and those derived from it."""
        for node in annotated_types(annotation):
            kind = self.table.class_named(node, here)
            if kind is not None:
                return (kind, *self.table.derived.get(kind.name, ()))
        return ()

    def _returned(self, one: FunctionDefinition) -> Iterable[ClassDefinition]:
        found = [kind for value in returned_values(one.node) for kind in self.instances(value, one)]
        return found or self._annotated(getattr(one.node, "returns", None), one)

    def _given_for(self, name: str, one: FunctionDefinition) -> Iterator[tuple[ast.expr, FunctionDefinition]]:
        """What callers give for a parameter of a function, and where."""
        spelled = [one.name]
        if one.name == "__init__" and one.owner is not None:
            spelled += [one.owner.name, *(kind.name for kind in self.table.derived.get(one.owner.name, ()))]
        sites = [site for how in spelled for site in self.table.sites.get(how, ())]
        for caller, call in sites if len(sites) <= _MAX_CALLS else ():
            if one in self.functions(call.func, caller):
                value = dict(bind_arguments(one.parameters, call.args, call.keywords)).get(name)
                if value is not None:
                    yield value, caller

    # -- makers

    @_once
    def makers(self, node: ast.expr, here: FunctionDefinition) -> Iterable[MakingCall]:
        """Calls that lead to no function of the program, or make an instance, and whose result ``node`` may hold."""
        if isinstance(node, ast.Call):
            return self._makers_called(node, here)
        if isinstance(node, ast.Name):
            return (made for value, there in self._values(node.id, here) for made in self.makers(value, there))
        if isinstance(node, ast.Attribute):
            return (made for value, method in self._kept(node, here) for made in self.makers(value, method))
        return (made for one in possible_members(node) for made in self.makers(one, here))

    def _makers_called(self, node: ast.Call, here: FunctionDefinition) -> Iterable[MakingCall]:
        if call_name(node) in _SAME_ITEMS and node.args:
            return self.makers(node.args[0], here)
        leads_to = self.functions(node.func, here)
        if self.held(node.func, here) or not leads_to:
            return [MakingCall(node, here)]
        return (made for one in leads_to for value in returned_values(one.node) for made in self.makers(value, one))

    def _values(self, name: str, here: FunctionDefinition) -> Iterator[tuple[ast.expr, FunctionDefinition]]:
        for scope in reversed(here.scopes):
            around = self.table.of_node[scope]
            values = [(value, around) for value in assigned_values(scope, name) if value is not None]
            if values or name in around.parameters:
                yield from values or self._given_for(name, around)
                return

    def _kept(self, node: ast.Attribute, here: FunctionDefinition) -> Iterator[tuple[ast.expr, FunctionDefinition]]:
        """What ``self.x`` is given by the methods of its class."""
        owner = here.owner if getattr(node.value, "id", "") == "self" else None
        for kind in self.table.lineage(owner) if owner is not None else ():
            for method in kind.methods.values():
                values = assigned_values(method.node, f"self.{node.attr}")
                yield from ((value, method) for value in values if value is not None)

    # -- classes

    @_once
    def held(self, node: ast.expr, here: FunctionDefinition) -> Iterable[ClassDefinition]:
        """Classes, not instances of them, that ``node`` may hold: by their name, in a table, or given back."""
        kind = self.table.class_named(node, here)
        if kind is not None:
            return (kind,)
        if isinstance(node, ast.Name):
            return self._held_in_name(node.id, here)
        if isinstance(node, ast.Call):
            if call_name(node) in _KEEP_MEMBERS and isinstance(node.func, ast.Attribute):
                return self.held(node.func.value, here)
            makers = self.functions(node.func, here)
            return (kind for by in makers for back in returned_values(by.node) for kind in self.held(back, by))
        return (kind for one in possible_members(node) for kind in self.held(one, here))

    @_once
    def _held_in_name(self, name: str, here: FunctionDefinition) -> Iterable[ClassDefinition]:
        for scope in reversed(here.scopes):
            around, values = self.table.of_node[scope], assigned_values(scope, name)
            if values:
                return (kind for value in values if value is not None for kind in self.held(value, around))
            if name in around.parameters:
                return (kind for value, by in self._given_for(name, around) for kind in self.held(value, by))
        found = self.table.modules.look_up(name, here.file.path)
        if not isinstance(found, ModuleValue) or found.path == here.file.path:
            return ()
        return self._held_in_name(found.name, self.table.of_node[self.table.modules.scopes[found.path].tree])
