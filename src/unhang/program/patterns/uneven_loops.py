"""What a rank goes through as often as its own data say, with collectives inside: loops of unknown length, and answers
that a model with spread parameters generates."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from unhang.program.data_flow.function_steps import ExitStep, ForwardStep, LoopStep, steps_of
from unhang.program.paths.divergent_paths import ProgramPaths
from unhang.program.paths.next_collective import paths_to_steps
from unhang.program.syntax.assignments import assigned_values
from unhang.program.syntax.definitions import FunctionDefinition, SourceLine
from unhang.program.syntax.syntax_tree import call_name, dotted, expression_text

_LOADERS = frozenset({"DataLoader", "StatefulDataLoader"})
_ITERABLE = frozenset({"IterableDataset"})
_JOINS = {"Join", "join_uneven_inputs", "join"}
_SYNC_ARGUMENT = "synced_gpus"


@dataclass(frozen=True, slots=True)
class UnevenLoop:
    """``loop`` runs until this rank's ``data`` end; ``call`` in it waits for all; ``others``: what comes behind."""

    loop: SourceLine
    data: SourceLine
    call: SourceLine
    others: SourceLine | None


def uneven_loops(ways: ProgramPaths) -> Iterator[UnevenLoop]:
    """Loops over a loader of an iterable data set, without an exit on a count that all ranks share."""
    for one, read in ways.flow.reads.items():
        for loop, path in paths_to_steps(read.steps):
            if not isinstance(loop, LoopStep) or loop.endless or any(_leaves(step) for step in steps_of(loop.body)):
                continue
            if _is_joined(one, loop.line):
                continue
            call = ways.first(loop.body, one)
            forward = next((step for step in steps_of(loop.body) if isinstance(step, ForwardStep)), None)
            held = call if call is not None and call.sure else forward
            if held is None:
                continue
            data = _iterable(ways, loop.over, one)
            if data is not None:
                after = ways.first(path[-1][0][path[-1][1] + 1 :], one)
                at = one.at(loop.line, loop.text)
                yield UnevenLoop(at, data, held.at, after.at if after is not None else None)


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


def _iterable(ways: ProgramPaths, over: ast.expr, here: FunctionDefinition) -> SourceLine | None:
    """Where a loader of an iterable data set is made that ``over`` holds."""
    table = ways.flow.calls.table
    for call, there in ways.flow.calls.makers(over, here):
        kind = ways.flow.calls.made(call, there)
        if call_name(call) in _LOADERS or (kind is not None and table.derives_from(kind, _LOADERS)):
            named = next((word.value for word in call.keywords if word.arg == "dataset"), None)
            data = ways.flow.calls.instances(named or next(iter(call.args), None), there)
            if any(table.derives_from(one, _ITERABLE) for one in data):
                return there.at(call.lineno, expression_text(call.func))
    return None


def unsynced_generations(ways: ProgramPaths) -> Iterator[SourceLine]:
    """Calls of ``generate`` of a model that is spread over ranks, in which ranks do not wait for the longest answer."""
    for one in ways.launch:
        for call in one.calls:
            if call_name(call) != "generate" or not isinstance(call.func, ast.Attribute):
                continue
            if ways.flow.around.wrapped.holds(_outer(call.func.value), one) == "sharded" and not _together(call):
                yield one.at(call.lineno, expression_text(call.func))


def _outer(model: ast.expr) -> ast.expr:
    """What wraps ``model``, where it is asked for the model in it: that one's parameters are spread all the same."""
    while isinstance(model, ast.Attribute) and model.attr in ("module", "_orig_mod"):
        model = model.value
    return model


def _together(call: ast.Call) -> bool:
    """It says so, or ``**options`` may."""
    for word in call.keywords:
        if word.arg is None:
            return True
        if word.arg == _SYNC_ARGUMENT:
            return not (isinstance(word.value, ast.Constant) and not word.value.value)
    return False
