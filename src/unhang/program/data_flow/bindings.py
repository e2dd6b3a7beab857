"""What names, attributes and parameters hold after a statement; what a collective makes equal."""

from __future__ import annotations

import ast
from dataclasses import replace

from unhang.knowledge.collectives import collectives_by_name, source_names
from unhang.program.data_flow.call_kinds import CallClassifier
from unhang.program.data_flow.function_steps import BATCH, CHANCE, DATA, ORDER, PARTLY, RANK
from unhang.program.data_flow.models import batch_parameters
from unhang.program.data_flow.rank_dependent_values import RankDependentValues
from unhang.program.data_flow.value_origins import (
    EQUAL,
    FILLED,
    GROUP_RANK,
    LOOP,
    NO_ORIGINS,
    PLAIN_VALUE,
    RANK_ORIGINS,
    SIFTED,
    ProgramKnowledge,
    ValueOrigin,
    either_value,
)
from unhang.program.syntax.definitions import FunctionDefinition
from unhang.program.syntax.syntax_tree import call_name, parameters_of, walk

_ONE_HOLDS = {"reduce", "scatter", "gather_object", "scatter_object_list", "reduce_scatter", "reduce_scatter_tensor"}

_RECEIVE = ("torch.distributed.recv", "torch.distributed.irecv")


class NameBindings:
    """Keeps the values of one function while it is read, and tells ``learned`` what others need."""

    def __init__(self, values: RankDependentValues, what: CallClassifier, learned: ProgramKnowledge) -> None:
        self.values, self.what, self.learned = values, what, learned
        self.here, self.calls = what.here, what.calls
        self.sets = values.known.sets

    def bind_parameters(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """What callers give, what names say, and which parameter is a batch."""
        batch = batch_parameters(self.here, self.calls)
        for one, _ in parameters_of(node).values():
            told = self.values.known.parameters.get((self.here, one.arg), NO_ORIGINS)
            named = self.values.by_name(one.arg)
            kinds = told | (NO_ORIGINS if told & RANK_ORIGINS else named.kinds) | {"=" + one.arg}
            kinds |= {BATCH} if one.arg in batch else NO_ORIGINS
            self.values.names[one.arg] = ValueOrigin(kinds, named.key, LOOP if BATCH in kinds else None)

    def filled_in_order(self, loop: ast.For | ast.AsyncFor | ast.While) -> None:
        """What is filled in a loop over a set has its order."""
        for node in (inner for part in loop.body for inner in walk(part)):
            filled = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
                filled = node.targets[0].value
            elif not isinstance(node, ast.Call) or call_name(node) not in ("append", "extend", "appendleft"):
                continue
            if isinstance(filled, ast.Name) and filled.id in self.values.names:
                held = self.values.names[filled.id]
                self.values.names[filled.id] = ValueOrigin(held.kinds | {ORDER}, only=held.only)

    def bind(self, target: ast.expr, value: ast.expr) -> None:
        """``target = value``."""
        if isinstance(target, ast.Tuple | ast.List):
            parts = value.elts if isinstance(value, ast.Tuple | ast.List) else [value] * len(target.elts)
            told = self.values.of(value).parts if isinstance(value, ast.Call) else ()
            for at, (part, one) in enumerate(zip(target.elts, parts, strict=False)):
                if at < len(told):
                    self.give(part, told[at])
                else:
                    self.bind(part, one)
            return
        if (
            isinstance(value, ast.Call)
            and call_name(value) in source_names("progress_bar")
            and _first_is(value, target)
        ):
            return  # ``bar = tqdm(bar)``: gone through as before
        if self.equal_result(value):
            self.give(target, ValueOrigin(made=EQUAL))
            return
        self.give(target, replace(self.values.of(value)))  # a value of its own: branches tell by identity who assigned

    def give(self, target: ast.expr, value: ValueOrigin) -> None:
        """``target`` holds ``value`` from here on."""
        if isinstance(target, ast.Name):
            by_name = self.values.of(ast.Name(target.id, ast.Load())) if target.id not in self.values.names else None
            kinds = by_name.kinds & RANK_ORIGINS if by_name is not None and not value.kinds else NO_ORIGINS
            called = bool(kinds) and not target.id.islower()
            self.values.names[target.id] = value if not called else ValueOrigin(value.kinds | kinds, value.key)
        elif isinstance(target, ast.Attribute):
            owner = self.values.owner_of(target)
            kinds = frozenset(kind for kind in value.kinds if kind[0] != "=") - {BATCH}
            if owner is None:
                kinds -= {DATA}
            self.learned.learn_attribute(owner, target.attr, ValueOrigin(kinds, value.key, None, value.only))
        elif isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self.give(part, value)
        elif isinstance(target, ast.Starred):
            self.give(target.value, value)
        elif isinstance(target, ast.Subscript):
            self.fill(target.value, value)

    def fill(self, container: ast.expr, value: ValueOrigin) -> None:
        """``container[...] = value``, ``container.update(value)``."""
        if isinstance(container, ast.Name) and container.id in self.values.names:
            held = self.values.names[container.id]
            kinds = held.kinds | (value.kinds & {PARTLY})
            self.values.names[container.id] = ValueOrigin(kinds, held.key, FILLED, held.only)

    def equal_result(self, value: ast.expr) -> bool:
        """Whether ``value`` comes out of a collective that gives all ranks the same."""
        while isinstance(value, ast.Attribute | ast.Subscript | ast.Call):
            if isinstance(value, ast.Call):
                rows = collectives_by_name().get(call_name(value), ())
                if any(row.equal and self.what.fits(row, value) is not None for row in rows):
                    return not self.calls.called(value, self.here)
                if not isinstance(value.func, ast.Attribute):
                    return False
                value = value.func.value
            else:
                value = value.value
        return False

    def made_equal(self, node: ast.Call, *, own: bool) -> None:
        """What a collective writes into is the same on every rank afterwards."""
        name = call_name(node)
        if own and name not in collectives_by_name():
            return
        if name in _ONE_HOLDS or name in ("forward", "backward"):
            return
        if not self.is_received(node) and not any(row.equal for row in collectives_by_name().get(name, ())):
            return
        given = node.args[:2] or [word.value for word in node.keywords if word.arg not in ("src", "dst", "group", "op")]
        lists = [inner for one in given if isinstance(one, ast.List | ast.Tuple) for inner in one.elts]
        for one in (*given, *lists):
            if isinstance(one, ast.Name) and one.id in self.values.names:
                self.values.names[one.id] = ValueOrigin(made=EQUAL)

    def is_received(self, node: ast.Call) -> bool:
        """Whether another rank gives the value: ranks that send values to each other agree on them."""
        return self.calls.table.outside(node.func, self.here) in _RECEIVE

    def pass_on(self, node: ast.Call) -> None:
        """What the functions it calls are given."""
        known = self.learned
        for target, given in self.calls.arguments(node, self.here):
            for name, value in given.items():
                self.given_to(target, name, value)
        name = call_name(node)
        if name in ("spawn", "start_processes"):
            started = next((w.value for w in node.keywords if w.arg == "fn"), node.args[0] if node.args else None)
            for found in self.calls.referred(started, self.here) if started is not None else ():
                if isinstance(found, FunctionDefinition) and found.parameters:
                    known.learn_parameter(found, found.parameters[0], frozenset({RANK}))
        for target in self.calls.given(node, self.here):
            for name, value in zip(target.parameters, node.args, strict=False):
                self.given_to(target, name, value)

    def given_to(self, target: FunctionDefinition, name: str, node: ast.expr) -> None:
        """A parameter of a function gets ``node``."""
        value, known = self.values.of(node), self.learned
        own = frozenset(kind for kind in value.kinds if kind[0] != "=")
        kinds = own if value.made in (LOOP, SIFTED) else own - {DATA}  # what is made of data may be anything
        if kinds:
            known.learn_parameter(target, name, kinds)
        if ORDER in kinds:
            self.sets.setdefault((target, name), (self.here, node))


def _first_is(call: ast.Call, target: ast.expr) -> bool:
    first = call.args[0] if call.args else None
    return isinstance(first, ast.Name) and isinstance(target, ast.Name) and first.id == target.id


def merge_branches(
    one: dict[str, ValueOrigin], other: dict[str, ValueOrigin], kinds: frozenset[str], ends: bool, other_ends: bool
) -> dict[str, ValueOrigin]:
    """What names hold after a test: on the way through ``one``, through ``other``, or on either where both go on."""
    if ends or other_ends:
        return other if ends else one
    only = frozenset(kind for kind in kinds if kind[0] != "=" and (kind in RANK_ORIGINS or "rank" in kind))
    found = dict(other)
    for name in one.keys() | other.keys():
        left, right = one.get(name), other.get(name)
        if left is right:
            continue
        equal = next((v for v in (left, right) if v is not None and v.made == EQUAL), None)
        if equal is not None:
            found[name] = equal  # a collective gives the value on this way; the other may not use it
            continue
        value = either_value(left or PLAIN_VALUE, right or PLAIN_VALUE)
        if any(v is not None and v.made == FILLED for v in (left, right)):
            partly = frozenset({PARTLY}) if kinds & (RANK_ORIGINS | {GROUP_RANK, DATA, CHANCE}) else NO_ORIGINS
            found[name] = ValueOrigin(value.kinds | partly, value.key, FILLED, value.only)
            continue
        found[name] = ValueOrigin(value.kinds | only, None, None, value.only or bool(only)) if only else value
    return found
