"""Parts of a model: attributes that hold modules with parameters, and what their forward is given."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from unhang.knowledge.collectives import layers, optional_inputs
from unhang.program.syntax.assignments import assigned_values
from unhang.program.syntax.call_graph import CallGraph
from unhang.program.syntax.definitions import ClassDefinition, FunctionDefinition
from unhang.program.syntax.syntax_tree import call_name

_MODULES = frozenset({"Module", "PreTrainedModel", "LightningModule", "Sequential", "ModuleList"})
_FORWARDS = {"forward", "training_step"}
_SETTINGS = ("use_", "output_", "return_", "is_", "do_")


def has_parameters(owner: ClassDefinition, attribute: str, calls: CallGraph) -> bool:
    """Whether an attribute of a model holds a layer, or a module of the program, that learns."""
    return _has_parameters(owner, attribute, calls)


@lru_cache(maxsize=4096)
def _has_parameters(owner: ClassDefinition, attribute: str, calls: CallGraph) -> bool:
    for kind in calls.table.lineage(owner):
        for method in kind.methods.values():
            for value in assigned_values(method.node, f"self.{attribute}"):
                if not isinstance(value, ast.Call):
                    continue
                made = calls.made(value, method)
                if made is not None:
                    return calls.table.derives_from(made, _MODULES) and not made.name.endswith("Loss")
                return call_name(value) in layers()
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
    return any(word in name.lower() for word in optional_inputs())
