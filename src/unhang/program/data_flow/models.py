"""Which names hold a model that is spread over ranks: calling it, or asking for its state, is a collective; and
the parts of models: attributes that hold modules with parameters, and what their forward is given."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from unhang.knowledge.collectives import model_wrappers, source_names
from unhang.program.syntax.assignments import assigned_values
from unhang.program.syntax.call_graph import CallGraph
from unhang.program.syntax.definitions import ClassDefinition, FunctionDefinition
from unhang.program.syntax.syntax_tree import Function, Scope, call_name, dotted, names_in, own_nodes, walk

_LIBRARIES = {"accelerate", "deepspeed", "lightning", "pytorch_lightning"}
_SAME = {"compile", "cast", "to", "cuda", "train", "eval", "requires_grad_"}
_MODULES = frozenset({"Module", "PreTrainedModel", "LightningModule", "Sequential", "ModuleList"})
_FORWARDS = {"forward", "training_step"}
_SETTINGS = ("use_", "output_", "return_", "is_", "do_")


@dataclass(slots=True)
class WrappedModels:
    """``shared``: gradients are; ``sharded``: parameters are. Names by function, attributes by name alone."""

    calls: CallGraph
    shared: set[Hashable] = field(default_factory=set)
    sharded: set[Hashable] = field(default_factory=set)
    any_sharded: bool = False
    any_shared: bool = False
    broadcasts: bool | None = None
    """Whether forward broadcasts buffers where gradients alone are shared; None where nobody knows of any buffers."""

    def holds(self, node: ast.expr, here: FunctionDefinition) -> str:
        """``sharded``, ``shared``, or nothing."""
        keys = list(_keys(node, here, self.calls))
        if any(key in self.sharded for key in keys):
            return "sharded"
        return "shared" if any(key in self.shared for key in keys) else ""


def find_wrapped_models(calls: CallGraph) -> WrappedModels:
    """Follows what wraps a model through assignments, arguments and returns."""
    following = _WrapperTracking(calls)
    for here in calls.defined:
        for node in own_nodes(here.node):
            following.follow(node, here)
    return following.result()


class _WrapperTracking:
    def __init__(self, calls: CallGraph) -> None:
        self.calls, self.found = calls, WrappedModels(calls)
        self.flows: dict[Hashable, set[Hashable]] = {}
        self.behind: dict[Hashable, set[Hashable]] = {}
        self.inside: set[Hashable] = set()
        """Names of what was wrapped in place: the callers' names hold it too."""

    def result(self) -> WrappedModels:
        found = self.found
        found.sharded = _spread(_spread(self.inside, self.behind) | found.sharded, self.flows)
        found.shared = _spread(found.shared, self.flows)
        return found

    def follow(self, node: ast.AST, here: FunctionDefinition) -> None:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            self._assigned(node.targets[0], node.value, here)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._assigned(node.target, node.value, here)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            modules = {one.name.partition(".")[0] for one in node.names}
            modules |= {(getattr(node, "module", "") or "").partition(".")[0], *(one.name for one in node.names)}
            self.found.any_shared |= bool(modules & (model_wrappers().keys() | _LIBRARIES))
        elif isinstance(node, ast.Return) and node.value is not None:
            self._hold(node.value, here, [("returns", here.node)])
            for at, part in enumerate(node.value.elts if isinstance(node.value, ast.Tuple) else ()):
                self._hold(part, here, [("returns", here.node, at)])
        elif isinstance(node, ast.Call):
            self._called(node, here)

    def _flow(self, source: Hashable, target: Hashable) -> None:
        self.flows.setdefault(source, set()).add(target)

    def _called(self, node: ast.Call, here: FunctionDefinition) -> None:
        for target, given in self.calls.arguments(node, here):
            for name, value in given.items():
                self._hold(value, here, [(target.node, name)])
                for key in _keys(value, here, self.calls):
                    self.behind.setdefault((target.node, name), set()).add(key)
        self._broadcast(node, here)
        if call_name(node) == "fully_shard" and node.args:
            self.inside |= set(_keys(node.args[0], here, self.calls))
            self.found.any_sharded = True

    def _broadcast(self, node: ast.Call, here: FunctionDefinition) -> None:
        """What ``node`` says of buffers; one that a test decides upon may never be made."""
        said = [word.value for word in node.keywords if word.arg == "broadcast_buffers"]
        if said and isinstance(said[0], ast.Constant):
            self.found.broadcasts = bool(said[0].value)
        elif self.found.broadcasts is None and call_name(node) in source_names("buffer"):
            place = here.program.place(node.lineno)
            certain = place is None or not any(isinstance(level.owner, ast.If) for level in place.levels)
            self.found.broadcasts = certain or None

    def _assigned(self, target: ast.expr, value: ast.expr, here: FunctionDefinition) -> None:
        if not isinstance(target, ast.Tuple):
            self._hold(value, here, list(_keys(target, here, self.calls)))
            return
        for at, part in enumerate(target.elts):
            names = list(_keys(part, here, self.calls))
            if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
                self._hold(value.elts[at], here, names)
            elif isinstance(value, ast.Call):
                self._made(names, value, at)
                for one in self.calls.called(value, here):
                    self._flows(("returns", one.node, at), names)

    def _hold(self, value: ast.expr, here: FunctionDefinition, names: list[Hashable]) -> None:
        """``names`` hold ``value`` from here on."""
        if isinstance(value, ast.IfExp):
            self._hold(value.body, here, names)
            if not (isinstance(value.test, ast.Call) and call_name(value.test) == "hasattr"):
                self._hold(value.orelse, here, names)  # ``m.module if hasattr(m, "module") else m`` is the model inside
        elif isinstance(value, ast.Call):
            self._made(names, value)
            for one in self.calls.called(value, here):
                self._flows(("returns", one.node), names)
            if call_name(value) in _SAME:
                behind = [value.func.value] if isinstance(value.func, ast.Attribute) else []
                for source in (*value.args[:1], *behind):
                    self._hold(source, here, names)
        else:
            for key in _keys(value, here, self.calls):
                self._flows(key, names)

    def _flows(self, source: Hashable, names: list[Hashable]) -> None:
        for name in names:
            self._flow(source, name)

    def _made(self, names: list[Hashable], value: ast.Call, at: int = 0) -> None:
        """``names`` hold the part ``at`` of what a library's call makes."""
        name, found = call_name(value), self.found
        if name in model_wrappers():
            (found.sharded if model_wrappers()[name] else found.shared).update(names)
            found.any_sharded |= model_wrappers()[name]
            found.any_shared = True
        elif name == "initialize" and dotted(value.func).startswith("deepspeed") and at == 0:
            found.sharded.update(names)
            found.any_sharded = True
        elif name == "prepare" and at < len(value.args):
            found.any_shared = True
            if "model" in dotted(value.args[at]).lower():
                found.shared.update(names)


def _keys(node: ast.expr, here: FunctionDefinition, calls: CallGraph) -> Iterator[Hashable]:
    if isinstance(node, ast.Name):
        scope = next((s for s in reversed(here.scopes) if node.id in _names(s)), here.node)
        yield (scope, node.id)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        yield (here.owner.name if here.owner is not None else "", node.attr)
    elif isinstance(node, ast.Attribute):
        yield from dict.fromkeys((kind.name, node.attr) for kind in calls.instances(node.value, here))


@lru_cache(maxsize=20_000)
def _names(scope: Scope) -> frozenset[str]:
    """Names that a scope gives a value, and its parameters."""
    stored = {n.id for n in own_nodes(scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    arguments = {n.arg for n in walk(scope.args) if isinstance(n, ast.arg)} if isinstance(scope, Function) else set()
    return frozenset(stored | arguments)


def _spread(start: set[Hashable], flows: dict[Hashable, set[Hashable]]) -> set[Hashable]:
    seen, waiting = set(start), list(start)
    while waiting:
        for key in flows.get(waiting.pop(), ()):
            if key not in seen:
                seen.add(key)
                waiting.append(key)
    return seen


@lru_cache(maxsize=4096)
def has_parameters(owner: ClassDefinition, attribute: str, calls: CallGraph) -> bool:
    """Whether an attribute of a model holds a layer, or a module of the program, that learns."""
    for kind in calls.table.lineage(owner):
        for method in kind.methods.values():
            for value in assigned_values(method.node, f"self.{attribute}"):
                if not isinstance(value, ast.Call):
                    continue
                made = calls.made(value, method)
                if made is not None:
                    return calls.table.derives_from(made, _MODULES) and not made.name.endswith("Loss")
                return call_name(value) in source_names("layer")
    return False


def called_model_parts(
    node: ast.Call, here: FunctionDefinition, calls: CallGraph
) -> Iterator[tuple[str, ClassDefinition]]:
    """Attributes of models that ``node`` may call: ``self.x(...)``, or a parameter that a caller gave ``self.x``."""
    func = node.func
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self":
        if here.owner is not None and is_model(here.owner, calls):
            yield func.attr, here.owner
    elif isinstance(func, ast.Name) and func.id in here.parameters:
        for caller, call in calls.callers.get(here, ()):
            for target, given in calls.arguments(call, caller):
                value = given.get(func.id) if target is here else None
                if isinstance(value, ast.Attribute) and getattr(value.value, "id", "") == "self" and caller.owner:
                    yield value.attr, caller.owner


@lru_cache(maxsize=4096)
def is_model(kind: ClassDefinition, calls: CallGraph) -> bool:
    """Whether it is a module of torch."""
    return calls.table.derives_from(kind, _MODULES)


def batch_parameters(here: FunctionDefinition, calls: CallGraph) -> frozenset[str]:
    """Parameters of a model's forward that hold what its rank's batch holds."""
    if here.owner is None or here.name not in _FORWARDS or not is_model(here.owner, calls):
        return frozenset()
    return frozenset(name for name in here.parameters if not name.startswith(_SETTINGS))


def is_optional_input(name: str) -> bool:
    """Whether only some samples have it, as they have images: then whole batches may lack it."""
    return any(word in name.lower() for word in source_names("optional_input"))


def differentiated_calls(here: FunctionDefinition, calls: CallGraph) -> frozenset[ast.Call]:
    """Calls of the program's own models, of whose results something is made that goes backward in ``here``."""
    made_of = {name for call in here.calls if call_name(call) == "backward" for name in _given(call)}
    if not made_of:
        return frozenset()
    assigned = [node for node in own_nodes(here.node) if isinstance(node, ast.Assign)]
    found: set[ast.Call] = set()
    count = -1
    while len(made_of) + len(found) > count:
        count = len(made_of) + len(found)
        for node in assigned:
            if any(made_of & names_in(target) for target in node.targets):
                if isinstance(node.value, ast.Call) and _calls_model(node.value, here, calls):
                    found.add(node.value)
                else:
                    made_of |= names_in(node.value)
    return frozenset(found)


def _given(call: ast.Call) -> Iterator[str]:
    """``loss`` of ``loss.backward()``, ``scaler.scale(loss).backward()`` and ``engine.backward(loss)``."""
    behind = [call.func.value] if isinstance(call.func, ast.Attribute) and not call.args else []
    for node in (*call.args[:1], *behind):
        yield from names_in(node)


def _calls_model(call: ast.Call, here: FunctionDefinition, calls: CallGraph) -> bool:
    owners = (one.owner for one in calls.called(call, here) if one.name != "__init__")
    return any(owner is not None and calls.table.derives_from(owner, _MODULES) for owner in owners)
