"""What the program itself demands of its settings: a test with ``%`` before a ``raise``, with the values in force."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from unhang.evidence.items import SourceFile
from unhang.host.inspection_result import NodeInspection
from unhang.program.program_source import ProgramSource
from unhang.program.settings.job_values import job_value, value_in_force, world_size_of
from unhang.program.syntax.evaluation import UNKNOWN, Evaluation
from unhang.program.syntax.syntax_tree import ParsedFile, Scope, call_name, own_nodes, parse_file, walk

_WORLD = {"num_processes", "world_size", "get_world_size", "WORLD_SIZE"}
_MAX_ROUNDS = 100_000


@dataclass(frozen=True, slots=True)
class BatchRequirement:
    """``if formula: raise`` at ``line`` of ``path``. ``holds``: the program goes on. ``values``: what was put in;
    ``where``: what stands for the names of the formula."""

    path: str
    line: int
    function: str
    formula: str
    holds: bool
    values: tuple[tuple[str, Any], ...]
    where: tuple[str, ...] = ()


def batch_requirements(here: NodeInspection) -> tuple[BatchRequirement, ...]:
    """Requirements of the program, then of its libraries, whose values are all known in this launch.

    A library's own defaults meet its requirements: one counts where the launch sets something in it.
    """
    found = here.found(ProgramSource)
    if found is None:
        return ()
    of_libraries = (rule for file in found.libraries for rule in _rules(file, here))
    set_here = (rule for rule in of_libraries if any(job_value(here, name) is not None for name, _ in rule.values))
    return (*(rule for file in found.files for rule in _rules(file, here)), *set_here)


def _rules(file: SourceFile, here: NodeInspection) -> Iterator[BatchRequirement]:
    program = parse_file(file.text) if "%" in file.text and "raise" in file.text else ""
    if isinstance(program, str):
        return
    for scope in program.owners:
        for node in own_nodes(scope):
            if isinstance(node, ast.If) and any(isinstance(inner, ast.Raise) for inner in node.body):
                rule = _worked_out(file, program, scope, node, here)
                if rule is not None:
                    yield rule


def _worked_out(
    file: SourceFile, program: ParsedFile, scope: Scope, node: ast.If, here: NodeInspection
) -> BatchRequirement | None:
    one = _Arithmetic(here, _assigned_before(scope, node.lineno))
    if not one.divides(node.test) or not _is_reached(program, node, here, scope):
        return None
    truth = one.value(node.test)
    if truth is UNKNOWN or not one.used:
        return None
    names = getattr(scope, "name", "<module>")
    where = tuple(f"{name} = {ast.unparse(value)}" for name, value in one.names.items())
    return BatchRequirement(
        file.path, node.lineno, names, ast.unparse(node.test), not truth, tuple(one.used.items()), where
    )


def _is_reached(program: ParsedFile, node: ast.If, here: NodeInspection, scope: Scope) -> bool:
    """Every test around it is known to hold."""
    place = program.place(node.lineno)
    for level in place.levels if place is not None else ():
        if isinstance(level.owner, ast.If) and level.owner is not node:
            truth = _Arithmetic(here, _assigned_before(scope, level.owner.lineno)).value(level.owner.test)
            if truth is UNKNOWN or bool(truth) != (level.part == "body"):
                return False
    return True


def _assigned_before(scope: Scope, line: int) -> dict[str, ast.expr]:
    """The last value of each plain name above ``line``."""
    assigned = (node for node in own_nodes(scope) if isinstance(node, ast.Assign) and node.lineno < line)
    found = sorted(assigned, key=lambda node: node.lineno)
    return {target.id: node.value for node in found for target in node.targets if isinstance(target, ast.Name)}


class _Arithmetic(Evaluation):
    """Works a test out. ``used``: settings that were looked up, and the number of ranks; ``names``: those of the
    program that stand for something, in the order they were needed."""

    def __init__(self, here: NodeInspection, assigned: Mapping[str, ast.expr]) -> None:
        self.here, self.assigned = here, assigned
        self.used: dict[str, Any] = {}
        self.names: dict[str, ast.expr] = {}
        self.bound: dict[str, Any] = {}
        self.rounds = 0
        self._open: set[str] = set()

    def divides(self, node: ast.expr, deep: int = 6) -> bool:
        """A remainder is taken, in ``node`` or in what its names stand for."""
        for inner in walk(node):
            match inner:
                case ast.BinOp(left=left, op=ast.Mod()) if not isinstance(left, ast.JoinedStr):
                    return True
            value = self.assigned.get(inner.id) if isinstance(inner, ast.Name) and deep else None
            if value is not None and value is not node and self.divides(value, deep - 1):
                return True
        return False

    def value(self, node: ast.expr) -> Any:
        """The value of ``node`` in this launch, or UNKNOWN."""
        self.rounds += 1
        if self.rounds > _MAX_ROUNDS:
            return UNKNOWN
        return super().value(node)

    def held(self, node: ast.expr) -> Any:
        """What a name or a setting holds; what a comprehension lists."""
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.Attribute):
            return self._setting(node.attr)
        return self._listed(node) if isinstance(node, ast.ListComp) else super().held(node)

    def _name(self, name: str) -> Any:
        if name in self.bound:
            return self.bound[name]
        value = self.assigned.get(name)
        if value is None:
            return self._setting(name)
        if name in self._open or (name in self.names and self.names[name] is not value):
            return UNKNOWN  # ``n = n + 1``: what it was before is not known
        self.names[name] = value
        self._open.add(name)
        worked_out = self.value(value)
        self._open.discard(name)
        return worked_out

    def _setting(self, name: str) -> Any:
        if name in _WORLD:
            world = world_size_of(self.here)
            return self._noted("ranks", world) if world is not None else UNKNOWN
        told = value_in_force(self.here, name)
        if told is None:
            return UNKNOWN
        return self._noted(name, told.value if told.whole is None else told.whole)

    def _noted(self, name: str, value: Any) -> Any:
        self.used[name] = value
        return value

    def _listed(self, node: ast.ListComp) -> Any:
        """``[n for n in range(2, batch + 1) if batch % n == 0]``."""
        one = node.generators[0]
        over = self.value(one.iter) if len(node.generators) == 1 and isinstance(one.target, ast.Name) else UNKNOWN
        if not isinstance(over, range | list) or not isinstance(one.target, ast.Name):
            return UNKNOWN
        found: list[Any] = []
        for self.bound[one.target.id] in over:
            tests = [self.value(test) for test in one.ifs]
            if any(test is UNKNOWN for test in tests):
                return UNKNOWN
            if all(tests):
                found.append(self.value(node.elt))
        return found

    def called(self, node: ast.Call) -> Any:
        """Also the number of ranks, and ranges."""
        name = call_name(node)
        if name in _WORLD:
            return self._setting(name)
        each = [self.value(one) for one in node.args] if name == "range" and not node.keywords else []
        if not each or not all(isinstance(one, int) for one in each):
            return super().called(node)
        made = range(*each)
        return UNKNOWN if len(made) > _MAX_ROUNDS else made
