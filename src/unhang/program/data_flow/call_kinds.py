"""What a call is: a collective, the forward or backward of a model that is spread over ranks, or long work."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from unhang.knowledge.collectives import Collective, collective_attributes, collectives_by_name, long_work_by_name
from unhang.program.data_flow.function_steps import CollectiveStep, ForwardStep, ModelPartStep, WorkStep
from unhang.program.data_flow.models import WrappedModels, called_model_parts, has_parameters
from unhang.program.data_flow.value_origins import ProgramKnowledge
from unhang.program.syntax.assignments import assigned_values
from unhang.program.syntax.definitions import FunctionDefinition
from unhang.program.syntax.syntax_tree import call_name, dotted, expression_text, last_name, walk

_GROUPS = {"group", "process_group", "pg", "group_name"}
_NO_LIBRARY = ("numpy", "threading", "multiprocessing", "asyncio", "tensorflow", "jax")
_TRAINS = {"backward"}
_BACKWARD_OF = {"accelerator", "fabric", "engine", "model_engine", "deepspeed_engine"}


@dataclass(slots=True)
class ProgramContext:
    """What reading needs to know of the whole program."""

    known: ProgramKnowledge
    wrapped: WrappedModels
    packages: set[str]
    """Libraries that any file imports."""
    given: frozenset[str] = frozenset()
    """Names of arguments that are given anywhere, and not as False."""
    forwards: set[FunctionDefinition] = field(default_factory=set)
    """Functions in which a model that is spread over ranks is called, there or further down."""

    @property
    def trains_all_parts(self) -> bool:
        """Every rank must have the gradients of every parameter in each step."""
        return self.wrapped.any_sharded or (self.wrapped.any_shared and "find_unused_parameters=True" not in self.given)


class CallClassifier:
    """Recognises the calls of one function."""

    def __init__(self, around: ProgramContext, here: FunctionDefinition) -> None:
        self.around, self.here, self.calls = around, here, around.known.calls

    def work(self, node: ast.Call) -> WorkStep | None:
        """The long work that ``node`` is."""
        owner = _owner(node)
        for row in long_work_by_name().get(call_name(node), ()):
            said = " ".join(_texts(node, self.here)) if row.says else ""
            if (not row.of or owner in row.of) and (not row.says or any(word in said for word in row.says)):
                return WorkStep(row.kind, dotted(node.func), node.lineno, self.here)
        return None

    def op(self, node: ast.Call) -> CollectiveStep | None:
        """The collective that ``node`` is."""
        name, text = call_name(node), dotted(node.func)
        held = (
            self.around.wrapped.holds(node.func, self.here) if isinstance(node.func, ast.Name | ast.Attribute) else ""
        )
        if not held and name in ("forward", "generate", "__call__") and isinstance(node.func, ast.Attribute):
            held = self.around.wrapped.holds(node.func.value, self.here)
        if held:
            return CollectiveStep("forward", text, node.lineno, self.here, sure=held == "sharded")
        if name in _TRAINS and isinstance(node.func, ast.Attribute):
            wrapped = self.around.wrapped
            if wrapped.any_shared or wrapped.any_sharded:
                sure = self.here in self.around.forwards or _owner(node) in _BACKWARD_OF
                return CollectiveStep("backward", text, node.lineno, self.here, sure=sure)
            return None
        for row in collectives_by_name().get(name, ()):
            fits = self.fits(row, node)
            if fits is not None:
                return CollectiveStep(name, text, node.lineno, self.here, self._group(node), fits)
        return None

    def forward(self, node: ast.Call) -> ForwardStep | None:
        """The call of a model of which it was not followed whether it is the sharded one."""
        func = node.func.value if isinstance(node.func, ast.Subscript) else node.func
        if not self.around.wrapped.any_sharded or not last_name(func).lower().endswith(("model", "model_parts")):
            return None
        return ForwardStep(expression_text(node.func), node.lineno, self.here) if node.args or node.keywords else None

    def part(self, node: ast.Call) -> ModelPartStep | None:
        """The part of a model that ``node`` calls: an attribute of it, also where a caller handed it over."""
        for attribute, owner in called_model_parts(node, self.here, self.calls):
            if has_parameters(owner, attribute, self.calls):
                return ModelPartStep(f"self.{attribute}", node.lineno, self.here)
        return None

    def attribute(self, node: ast.Attribute) -> CollectiveStep | None:
        """The collective that reading ``node`` may be."""
        owner = last_name(node.value).strip("_")
        for row in collective_attributes().get(node.attr, ()):
            known = any(one in self.around.packages for one in row.outside) or not row.outside
            if known and owner in row.of and (not row.given or row.given in self.around.given):
                return CollectiveStep(node.attr, dotted(node), node.lineno, self.here, sure=False)
        return None

    def fits(self, row: Collective, node: ast.Call) -> bool | None:
        """Whether ``node`` is such a collective in any case (True) or perhaps (False); None where it is none."""
        outside = self.calls.table.outside(node.func, self.here)
        module = outside.rpartition(".")[0]
        if outside.startswith(_NO_LIBRARY):
            return None
        if row.given and row.given not in self.around.given:
            return None
        if row.unless and any(word.arg == row.unless for word in node.keywords):
            return None
        if row.word:
            given = [word.value for word in node.keywords if word.arg == row.word]
            if not given or (isinstance(given[0], ast.Constant) and not given[0].value):
                return None
        if row.outside and not row.of:
            return True if self._is_of(node.func, row.outside) else None
        if row.outside and not any(one in self.around.packages for one in row.outside):
            return None
        owner = _owner(node)
        if row.needs:
            return self._gathers(row, node, owner)
        if row.of and not (module in row.of or (owner in row.of and (not module or module.endswith(owner)))):
            return None
        return True

    def _gathers(self, row: Collective, node: ast.Call, owner: str) -> bool | None:
        if not self.around.wrapped.any_sharded:
            return None
        if not row.of:
            method = isinstance(node.func, ast.Attribute) and not self.calls.table.outside(node.func, self.here)
            return None if method else True
        if not isinstance(node.func, ast.Attribute):
            return None
        if owner in row.of and owner != "model":
            return True
        if self.around.wrapped.holds(node.func.value, self.here) == "sharded":
            return True
        return False if owner == "model" else None

    def _is_of(self, func: ast.expr, libraries: tuple[str, ...]) -> bool:
        """``func`` is a method of what a function of these libraries made."""
        made = self.calls.makers(func.value, self.here) if isinstance(func, ast.Attribute) else ()
        return any(self.calls.table.outside(call.func, there).startswith(libraries) for call, there in made)

    def _group(self, node: ast.Call) -> str:
        given = next((word.value for word in node.keywords if word.arg in _GROUPS), None)
        if given is None:
            given = next((one for one in node.args if "group" in last_name(one).lower()), None)
        if given is None:
            owner = _owner(node)
            return owner if "group" in owner and "world" not in owner else ""
        if isinstance(given, ast.Constant) or "WORLD" in last_name(given) or "world" in last_name(given):
            return ""
        return expression_text(given)


def _texts(node: ast.AST, here: FunctionDefinition, deep: int = 2) -> Iterable[str]:
    """The texts that stand in an expression, and in what its names were given in this function."""
    for inner in walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value
        elif isinstance(inner, ast.Name) and deep:
            for value in assigned_values(here.node, inner.id):
                yield from _texts(value, here, deep - 1) if value is not None else ()


def _owner(node: ast.Call) -> str:
    """The last part before the dot, without underscores at its start."""
    if not isinstance(node.func, ast.Attribute):
        return ""
    return last_name(node.func.value).strip("_")
