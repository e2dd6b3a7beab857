"""Work that only some ranks do inside a loop of steps, while the others go on to the next collective and wait there."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from unhang.knowledge.collectives import source_names
from unhang.program.data_flow.function_steps import CollectiveStep, steps_of
from unhang.program.paths.divergent_paths import ProgramPaths
from unhang.program.rank_dependence.rank_branches import RankBranch, rank_branch_at
from unhang.program.rank_dependence.rank_values import RankValues
from unhang.program.rank_dependence.step_loops import step_loops
from unhang.program.syntax.definitions import ClassDefinition, FunctionDefinition, SourceLine
from unhang.program.syntax.syntax_tree import Loop, call_name, dotted, last_line, names_in, own_nodes, walk

DATA, LOG, SAVE = "data", "log", "save"
_JUMPS = {"return", "raise", "continue", "break", "exit"}
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_MAX_DEPTH = 6


@dataclass(frozen=True, slots=True)
class SingleRankWork:
    """``work`` of ``kind`` (:data:`DATA`: a loop over a data set; :data:`LOG`; :data:`SAVE`) is done by some ranks only
    (``branch``, in ``branch_path``), in every round of the loop at ``loop``; the others wait at ``waits``."""

    kind: str
    work: SourceLine
    branch: RankBranch
    branch_path: str
    loop: SourceLine
    waits: SourceLine


class _PathToWork(NamedTuple):
    """One way from a function to work: the line in the function, then the lines in those it calls."""

    kind: str
    lines: tuple[tuple[FunctionDefinition, int], ...]
    text: str


def single_rank_work(ways: ProgramPaths | None) -> tuple[SingleRankWork, ...]:
    """Such work of a whole program, each place once, in the order of the files."""
    found: dict[tuple[str, int], SingleRankWork] = {}
    for one in _Search(ways).found() if ways is not None else ():
        found.setdefault((one.work.path, one.work.line), one)
    return tuple(found.values())


class _Search:
    def __init__(self, ways: ProgramPaths) -> None:
        self._calls = ways.flow.calls
        self._ops = {
            (one, step.line, step.text): SourceLine(one.file.path, step.line, one.name, step.text)
            for one, read in ways.flow.reads.items()
            for step in steps_of(read.steps)
            if isinstance(step, CollectiveStep) and (step.name != "forward" or step.sure)
        }
        self._values = RankValues(ways.flow)
        self._known: dict[FunctionDefinition, tuple[_PathToWork, ...]] = {}
        self._waiting: dict[FunctionDefinition, SourceLine | None] = {}

    def found(self) -> Iterator[SingleRankWork]:
        for one in self._calls.defined:
            for step in self._work(one):
                line = step.lines[0][1]
                branch = self._branch(one, line) or (
                    self._built_alone.get(one.owner) if one.owner is not None else None
                )
                if branch is None or (step.kind != DATA and not branch.sure):
                    continue
                yield from self._in_loops(step, branch, one, [(one, line)])

    # -- work

    def _work(self, one: FunctionDefinition) -> tuple[_PathToWork, ...]:
        """What a function does that takes long, itself or through what it calls: one way for each place."""
        if one in self._known:
            return self._known[one]
        self._known[one] = ()  # a function that calls itself adds nothing
        steps = [_PathToWork(kind, ((one, line),), text) for kind, line, text in self._own_work(one)]
        for call in one.calls:
            for target in self._calls.called(call, one):
                inner = self._work(target) if target is not one else ()
                steps += [_PathToWork(step.kind, ((one, call.lineno), *step.lines), step.text) for step in inner]
        self._known[one] = tuple(sorted(steps, key=lambda step: step.lines[0][1]))
        return self._known[one]

    def _own_work(self, one: FunctionDefinition) -> Iterator[tuple[str, int, str]]:
        loops = step_loops(one.program)
        for node in own_nodes(one.node):
            if isinstance(node, ast.For | ast.AsyncFor) and not self._trains(node, one):
                facts = loops.facts(node)
                if facts is not None and facts.iterates_data and _calls_a_model(node):
                    yield DATA, node.lineno, facts.over
            elif isinstance(node, ast.Call) and (kind := _writes(node)):
                yield kind, node.lineno, dotted(node.func)

    def _trains(self, loop: Loop, one: FunctionDefinition) -> bool:
        return any(self._waits_at(call, one) is not None for call in _calls_in(loop))

    # -- who does it

    def _branch(self, one: FunctionDefinition, line: int) -> RankBranch | None:
        place = one.program.place(line)
        if place is None:
            return None
        branch = rank_branch_at(one.program, place, line, values=self._values)
        return branch if branch is None or _always_leaves(one, branch) else None

    @cached_property
    def _built_alone(self) -> Mapping[ClassDefinition, RankBranch]:
        """Classes of which only some ranks make an instance."""
        made: dict[ClassDefinition, list[RankBranch | None]] = {}
        for one in self._calls.defined:
            for call in one.calls:
                if kind := self._calls.made(call, one):
                    made.setdefault(kind, []).append(self._branch(one, call.lineno))
        return {
            kind: next(branch for branch in branches if branch is not None)
            for kind, branches in made.items()
            if all(branch is not None and branch.sure for branch in branches)
        }

    # -- in which loop, and where the others are then

    def _in_loops(
        self, step: _PathToWork, branch: RankBranch, here: FunctionDefinition, way: list[tuple[FunctionDefinition, int]]
    ) -> Iterator[SingleRankWork]:
        """``way``: from the innermost function in which all ranks are, or the one with the branch, outwards."""
        line = way[-1][1]
        branched = branch.line if len(way) == 1 else line
        loop = next((loop for loop in _loops_around(here, line) if loop.lineno <= branched or len(way) > 1), None)
        if loop is not None and (waits := self._after(way, loop)) is not None:
            work_in, work_line = step.lines[-1]
            at = SourceLine(work_in.file.path, work_line, work_in.name, step.text)
            head = loop.test if isinstance(loop, ast.While) else loop.iter
            around = SourceLine(here.file.path, loop.lineno, here.name, ast.unparse(head))
            yield SingleRankWork(step.kind, at, branch, way[0][0].file.path, around, waits)
            return
        if len(way) >= _MAX_DEPTH:
            return
        for caller, call in self._calls.callers.get(here, ()):
            if caller not in {one for one, _ in way} and self._branch(caller, call.lineno) is None:
                yield from self._in_loops(step, branch, caller, [*way, (caller, call.lineno)])

    def _after(self, way: list[tuple[FunctionDefinition, int]], loop: Loop) -> SourceLine | None:
        """The next collective of the ranks that do not work: behind it in each function, then from the loop's start."""
        here, line = way[-1]
        ends = [
            (one, at + 1, last_line(one.node) if not isinstance(one.node, ast.Module) else at) for one, at in way[:-1]
        ]
        ends += [(here, line + 1, last_line(loop)), (here, loop.lineno, line)]
        behind = [(one, call) for one, first, last in ends for call in one.calls if first <= call.lineno <= last]
        for always in (True, False):  # what each round does tells more than ``if step == 1: barrier()``
            for one, call in behind:
                if (found := self._waits_at(call, one)) is None or self._branch(one, call.lineno) is not None:
                    continue
                if not always or not _is_conditional(one, call.lineno, loop if one is here else None):
                    return found
        return None

    def _waits_at(self, call: ast.Call, here: FunctionDefinition) -> SourceLine | None:
        targets = self._calls.called(call, here)
        met = self._ops.get((here, call.lineno, dotted(call.func))) if not targets else None
        if met is not None:
            return met
        found = (self._waits_in(target) for target in targets if target is not here)
        return next((one for one in found if one is not None), None)

    def _waits_in(self, one: FunctionDefinition) -> SourceLine | None:
        if one in self._waiting:
            return self._waiting[one]
        self._waiting[one] = None
        for call in one.calls:
            found = self._waits_at(call, one)
            if found is not None and self._branch(one, call.lineno) is None:
                self._waiting[one] = found
                return found
        return None


def _always_leaves(one: FunctionDefinition, branch: RankBranch) -> bool:
    """``if not is_master(): return`` sends ranks away for good; a return on an error inside a branch does not."""
    if branch.kind not in _JUMPS:
        return True
    place = one.program.place(branch.line)
    test = place.statement if place is not None else None
    parts = (test.body, test.orelse) if isinstance(test, ast.If) else ()
    return any(isinstance(inner, _LEAVING) or _exits(inner) for part in parts for inner in part)


def _exits(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and "exit" in ast.unparse(statement.value)


def _loops_around(one: FunctionDefinition, line: int) -> Iterator[Loop]:
    """Innermost first."""
    place = one.program.place(line)
    for level in reversed(place.levels if place is not None else ()):
        if isinstance(level.owner, ast.For | ast.AsyncFor | ast.While) and level.part == "body":
            yield level.owner


def _is_conditional(one: FunctionDefinition, line: int, inside: Loop | None) -> bool:
    """A test decides whether ``line`` is reached, in its function or inside the loop."""
    place = one.program.place(line)
    for level in reversed(place.levels if place is not None else ()):
        if level.owner is inside:
            return False
        if isinstance(level.owner, ast.If):
            return True
    return False


def _calls_in(loop: Loop) -> Iterator[ast.Call]:
    return (node for part in loop.body for node in walk(part) if isinstance(node, ast.Call))


def _calls_a_model(loop: ast.For | ast.AsyncFor) -> bool:
    """Something is computed from what the loop gives; a loop that only counts or prints is short."""
    names = names_in(loop.target)
    return any(names & names_in(part) for part in loop.body) and any(True for _ in _calls_in(loop))


def _writes(call: ast.Call) -> str:
    name, full = call_name(call), dotted(call.func)
    if name in source_names("log_call") or (name == "log" and full.rpartition(".")[0] in source_names("log_library")):
        return LOG
    return SAVE if full in source_names("save_function") or name in source_names("save_method") else ""
