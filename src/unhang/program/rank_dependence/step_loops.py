"""The loops of a program that make its steps: over a data loader, or around collectives, backward and optimizer."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from unhang.knowledge.collectives import source_names
from unhang.program.syntax.syntax_tree import (
    LinePosition,
    Loop,
    ParsedFile,
    blocks,
    call_name,
    expression_text,
    own_nodes,
)

_LOADER_NAME = re.compile(r"loader|dataset|batches|_dl$|^dl$|data_iter|sampler", re.IGNORECASE)
_WEIGHTS = {"parameters", "named_parameters", "buffers", "named_buffers", "state_dict", "modules", "children"}
_WRAPPERS = {"enumerate", "tqdm", "zip", "islice", "iter", "list", "reversed", "cycle", "chain", "track"}


@dataclass(frozen=True, slots=True)
class LoopPurpose:
    """A loop around or before a line."""

    line: int
    over: str
    """What it goes over, as the source spells it."""
    iterates_data: bool
    """It goes over a data loader or dataset, or takes ``next`` of one."""
    makes_steps: bool
    """It trains, evaluates or communicates in every round."""
    trains: bool
    """It goes over data or trains; False for a loop that only communicates."""


class StepLoops:
    """Answers what each loop of one program is for."""

    def __init__(self, program: ParsedFile) -> None:
        self._training = functions_that_call(program, source_names("step"))
        self._communicating = functions_that_call(program, source_names("step_collective"))
        self._data = _names_of_data(program)
        self._known: dict[Loop, LoopPurpose] = {}

    def facts(self, loop: ast.AST) -> LoopPurpose | None:
        """Facts of ``loop``; None when it is no loop."""
        if not isinstance(loop, ast.For | ast.AsyncFor | ast.While):
            return None
        if loop not in self._known:
            self._known[loop] = self._look_at(loop)
        return self._known[loop]

    def _look_at(self, loop: Loop) -> LoopPurpose:
        over = loop.test if isinstance(loop, ast.While) else loop.iter
        data = self._goes_over_data(loop)
        made = {call_name(node) for part in loop.body for node in ast.walk(part) if isinstance(node, ast.Call)}
        trains = data or bool(made & self._training)
        communicates = bool(made & self._communicating) and not _goes_over_weights(over)
        return LoopPurpose(
            line=loop.lineno,
            over=expression_text(over)[:120],
            iterates_data=data,
            makes_steps=trains or communicates,
            trains=trains,
        )

    def enclosing(self, place: LinePosition) -> Iterator[LoopPurpose]:
        """Loops around the line inside its function, innermost first; a loop's own first line belongs to it."""
        if place.statement is not None and (own := self.facts(place.statement)):
            yield own
        for level in reversed(place.levels):
            if level.part == "body" and (facts := self.facts(level.owner)):
                yield facts

    def nearest(self, place: LinePosition) -> tuple[LoopPurpose | None, LoopPurpose | None]:
        """(innermost loop of steps around the line, loop of steps that ended before it and is nearest to it)."""
        around = next((facts for facts in self.enclosing(place) if facts.makes_steps), None)
        for level in reversed(place.levels):
            ended = self._ended_before(level.block[: level.index], around)
            if ended is None and level.part == "orelse":
                facts = self.facts(level.owner)
                ended = facts if facts is not None and facts.makes_steps else None
            if ended is not None:
                return around, ended
        return around, None

    def _ended_before(self, statements: Sequence[ast.stmt], around: LoopPurpose | None) -> LoopPurpose | None:
        for statement in reversed(statements):
            for loop in _loops_in(statement):
                facts = self.facts(loop)
                if facts is None or not facts.makes_steps:
                    continue
                if facts.trains or around is None or not around.trains or around.line > facts.line:
                    # Inside a training step a loop that only communicates (over gradients, say) is part of the step.
                    return facts
        return None

    def _goes_over_data(self, loop: Loop) -> bool:
        if isinstance(loop, ast.While):
            return any(self._takes_next(node) for node in ast.walk(loop))
        return self._is_data(loop.iter)

    def _takes_next(self, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Call) and call_name(node) == "next" and bool(node.args) and self._is_data(node.args[0])
        )

    def _is_data(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            if call_name(node) in _WRAPPERS:
                return any(self._is_data(argument) for argument in node.args)
            return call_name(node) in source_names("data") or bool(_LOADER_NAME.search(call_name(node)))
        if isinstance(node, ast.Subscript):
            return self._is_data(node.value)
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        return name in self._data or bool(_LOADER_NAME.search(name))


def _loops_in(statement: ast.stmt) -> Iterator[ast.AST]:
    """Loops of a finished statement: itself, or inside its ``with``, ``try``, ``if``; not of functions it defines."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting.extend(child for _, _, block in blocks(node) for child in block)


def _goes_over_weights(over: ast.AST) -> bool:
    return any(isinstance(node, ast.Call) and call_name(node) in _WEIGHTS for node in ast.walk(over))


def functions_that_call(program: ParsedFile, wanted: Collection[str]) -> frozenset[str]:
    """``wanted`` and the names of functions that call one of them, directly or through others of the file."""
    calls: dict[str, set[str]] = {}
    for scope in program.owners:
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            made = {call_name(node) for node in own_nodes(scope) if isinstance(node, ast.Call)}
            calls.setdefault(scope.name, set()).update(made)
    known = set(wanted)
    while more := {name for name, made in calls.items() if made & known} - known:
        known |= more
    return frozenset(known)


def _names_of_data(program: ParsedFile) -> frozenset[str]:
    """Names that are given a data loader or a dataset anywhere in the file."""
    names, makers = set[str](), source_names("data") - {"prepare"}
    for node in program.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and call_name(node.value) in makers:
            for target in node.targets:
                parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
                names.update(part.id for part in parts if isinstance(part, ast.Name))
                names.update(part.attr for part in parts if isinstance(part, ast.Attribute))
    return frozenset(names)


@lru_cache(maxsize=1024)
def step_loops(program: ParsedFile) -> StepLoops:
    """The loops of ``program``, looked at once."""
    return StepLoops(program)
