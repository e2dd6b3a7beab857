"""Loops over each rank's own data, of unknown length, with collectives inside."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from unhang.program.data_flow.function_steps import CollectiveStep, ExitStep, ForwardStep, LoopStep, steps_of
from unhang.program.paths.divergent_paths import ProgramPaths, SourceLine
from unhang.program.paths.next_collective import paths_to_steps
from unhang.program.syntax.assignments import assigned_values
from unhang.program.syntax.definitions import FunctionDefinition
from unhang.program.syntax.syntax_tree import call_name, dotted, expression_text, own_nodes

_LOADERS = frozenset({"DataLoader", "StatefulDataLoader"})
_KEEP_LENGTH = {"enumerate", "tqdm", "iter", "track", "auto"}
_ITERABLE = frozenset({"IterableDataset"})
_JOINS = {"Join", "join_uneven_inputs", "join"}
_MAX_DEPTH = 6


@dataclass(frozen=True, slots=True)
class UnevenLoop:
    """``loop`` runs until this rank's ``data`` end; ``call`` in it waits for all; ``others``: what comes behind."""

    loop: SourceLine
    data: SourceLine
    call: SourceLine
    others: SourceLine | None


def uneven_loops(ways: ProgramPaths) -> Iterator[UnevenLoop]:
    """Loops over a loader of an iterable data set, without an exit on a count that all ranks share."""
    for one, read in ways.reads.items():
        for path in paths_to_steps(read.steps):
            loop = path[-1][0][path[-1][1]]
            if not isinstance(loop, LoopStep) or loop.endless or any(_leaves(step) for step in steps_of(loop.body)):
                continue
            if _is_joined(one, loop.line):
                continue
            call = ways.first(loop.body, one, groups=True)
            forward = next((step for step in steps_of(loop.body) if isinstance(step, ForwardStep)), None)
            held = call if call is not None and call.sure else forward
            if held is None:
                continue
            data = _iterable(ways, loop.over, one, _MAX_DEPTH)
            if data is not None:
                after = ways.first(path[-1][0][path[-1][1] + 1 :], one, groups=True)
                at = SourceLine(one.file.path, loop.line, one.full_name, loop.text)
                yield UnevenLoop(at, data, _at(held), _at(after) if after is not None else None)


def _is_joined(one: FunctionDefinition, line: int) -> bool:
    """``with Join([model]):`` lets ranks that ran out answer for the others."""
    place = one.program.place(line)
    withs = (level.owner for level in (place.levels if place is not None else ()) if isinstance(level.owner, ast.With))
    return any(_joins(item.context_expr, one) for owner in withs for item in owner.items)


def _joins(entered: ast.expr, one: FunctionDefinition) -> bool:
    """``Join([model])``, ``model.join()``, or a name that holds ``model.join`` on some way."""
    if not isinstance(entered, ast.Call):
        return False
    held = (
        dotted(value).rpartition(".")[2] for value in assigned_values(one.node, call_name(entered)) if value is not None
    )
    return call_name(entered) in _JOINS or any(name in _JOINS for name in held)


def _leaves(step: object) -> bool:
    return isinstance(step, ExitStep) and step.kind in ("break", "return")


def _at(op: CollectiveStep | ForwardStep) -> SourceLine:
    return SourceLine(op.here.file.path, op.line, op.here.full_name, op.text)


def _iterable(ways: ProgramPaths, node: ast.expr | None, here: FunctionDefinition, deep: int) -> SourceLine | None:
    """Where a loader of an iterable data set is made that ``node`` holds."""
    if node is None or deep <= 0:
        return None
    calls = ways.calls
    if isinstance(node, ast.Call):
        name = call_name(node)
        if _makes_loader(ways, node, here) and (node.args or node.keywords):
            data = next((word.value for word in node.keywords if word.arg == "dataset"), None) or (
                node.args[0] if node.args else None
            )
            return _of_data(ways, data, here, node, deep)
        if name in _KEEP_LENGTH and node.args:
            return _iterable(ways, node.args[0], here, deep)
        for target in calls.called(node, here):
            for back in own_nodes(target.node):
                if isinstance(back, ast.Return) and (found := _iterable(ways, back.value, target, deep - 1)):
                    return found
        return None
    return _named(ways, node, here, deep, None)


def _makes_loader(ways: ProgramPaths, node: ast.Call, here: FunctionDefinition) -> bool:
    kind = ways.calls.made(node, here)
    return call_name(node) in _LOADERS or (kind is not None and ways.calls.table.derives_from(kind, _LOADERS))


def _of_data(
    ways: ProgramPaths, data: ast.expr | None, here: FunctionDefinition, made: ast.Call, deep: int
) -> SourceLine | None:
    at = SourceLine(here.file.path, made.lineno, here.full_name, expression_text(made.func))
    found = _of_kind(ways, data, here, at)
    return found or (_named(ways, data, here, deep, made) if isinstance(data, ast.Name) else None)


def _named(
    ways: ProgramPaths, node: ast.expr, here: FunctionDefinition, deep: int, made: ast.Call | None
) -> SourceLine | None:
    """What a name or ``self.name`` holds: by its assignments, or by what callers give for it."""
    for value, there in _sources(ways, node, here):
        found = (
            _iterable(ways, value, there, deep - 1)
            if made is None
            else _of_kind(
                ways, value, there, SourceLine(here.file.path, made.lineno, here.full_name, expression_text(made.func))
            )
        )
        if found is not None:
            return found
    return None


def _sources(
    ways: ProgramPaths, node: ast.expr, here: FunctionDefinition
) -> Iterator[tuple[ast.expr, FunctionDefinition]]:
    """What is assigned to ``node``, or given for it, with the function in which that stands."""
    if dotted(node).startswith("self.") and here.owner is not None:
        for kind in ways.calls.table.lineage(here.owner):
            for method in kind.methods.values():
                yield from ((value, method) for value in _assigned(method.node, dotted(node)))
        return
    if not isinstance(node, ast.Name):
        return
    yield from [(value, here) for scope in reversed(here.scopes) for value in _assigned(scope, node.id)][:4]
    for caller, call in ways.calls.callers.get(here, ()) if node.id in here.parameters else ():
        for target, values in ways.calls.arguments(call, caller):
            if target is here and node.id in values:
                yield values[node.id], caller


def _of_kind(ways: ProgramPaths, data: ast.expr | None, here: FunctionDefinition, at: SourceLine) -> SourceLine | None:
    """``at`` where ``data`` is an iterable data set of the program."""
    kinds = ways.calls.kinds_of(data, here)
    return at if any(ways.calls.table.derives_from(kind, _ITERABLE) for kind in kinds) else None


def _assigned(scope: ast.AST, name: str) -> Iterator[ast.expr]:
    for node in own_nodes(scope):
        if isinstance(node, ast.Assign) and any(dotted(target) == name for target in node.targets):
            yield node.value
