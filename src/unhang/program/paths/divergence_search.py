"""Finds the places of a program where ranks take different paths."""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from unhang.knowledge.collectives import source_names
from unhang.program.data_flow.function_steps import (
    BATCH,
    CHANCE,
    DATA,
    ERRORS,
    FILES,
    LOCAL,
    LOCAL_ZERO,
    NAMED,
    ORDER,
    RANK,
    RANK_ZERO,
    SETTING,
    TIME,
    Block,
    BranchStep,
    CallStep,
    CollectiveStep,
    ExitStep,
    FunctionReading,
    LoopStep,
    TestTerm,
    TryStep,
    inner_blocks,
    steps_of,
    test_terms,
)
from unhang.program.data_flow.value_origins import GROUP_RANK
from unhang.program.paths.collective_traces import RAISE, PathAssumptions
from unhang.program.paths.divergent_paths import PathDivergence, ProgramPaths
from unhang.program.paths.next_collective import ReachedCollective, StepPath, paths_to_steps
from unhang.program.rank_dependence.rank_branches import rank_branch_at
from unhang.program.syntax.assignments import assigned_values
from unhang.program.syntax.call_graph import CallGraph
from unhang.program.syntax.definitions import FunctionDefinition, SourceLine
from unhang.program.syntax.syntax_tree import call_name, expression_text, own_nodes, parse_expression, walk

_OF_RANKS = (RANK, LOCAL, GROUP_RANK, NAMED)
_ASKED = (*_OF_RANKS, DATA, TIME, FILES, CHANCE)
_ASKED_OF_PARTS = (DATA, BATCH, CHANCE)
_READS = ("'r'", "'rb'")


class DivergenceSearch:
    """Goes through all functions that were read; stops at ``until`` of processor time."""

    def __init__(self, ways: ProgramPaths, until: float, *, parts: bool = False) -> None:
        self.ways, self.until, self.parts = ways, until, parts
        self.asked = _ASKED_OF_PARTS if parts else _ASKED
        self.traces = ways.traces
        self.next = ways.next

    def found(self) -> Iterator[PathDivergence]:
        """Every place, function by function."""
        for one, read in self.ways.flow.reads.items():
            if one not in self.ways.launch:
                continue
            if time.process_time() > self.until:
                self.ways.partly = True
                return
            yield from self._in_function(one, read)

    def _in_function(self, one: FunctionDefinition, read: FunctionReading) -> Iterator[PathDivergence]:
        keys: dict[str, TestTerm] = {}
        for step in steps_of(read.steps):
            if isinstance(step, LoopStep) and step.kinds - {ORDER} and not self.parts:
                own = not step.kinds - {ORDER, DATA, CHANCE, TIME}  # nothing that the ranks of a group share
                met = self.next.first(step.body, one, PathAssumptions(groups=own))
                if met is not None and (met.certain or (own and met.proved)):
                    yield self._as_parting(one, step, tuple(step.kinds - {ORDER}), "loop", met, None, sure=False)
            if isinstance(step, LoopStep) and not self.parts:
                yield from self._swallowed(one, step)
            if isinstance(step, BranchStep):
                for leaf in test_terms(step.test):
                    if leaf.known is None and leaf.kinds & set(self.asked):
                        keys.setdefault(leaf.key, leaf)
        seen: set[tuple[SourceLine, SourceLine]] = set()
        for leaf in keys.values():
            found = self._parted(one, read, leaf)
            if found is not None and (found.branch, found.call) not in seen:
                seen.add((found.branch, found.call))
                yield found

    def _swallowed(self, one: FunctionDefinition, loop: LoopStep) -> Iterator[PathDivergence]:
        """A rank that meets an error in a round goes on without the collectives of the rest of it."""
        for step in loop.body:
            if not isinstance(step, TryStep) or not step.swallows:
                continue
            met = self.next.first(step.body, one, PathAssumptions())
            handled = [self.traces.alone(handler, PathAssumptions()) for handler in step.handlers]
            if met is None or not met.certain or RAISE in handled or not self._works_before(step.body, one, 4):
                continue
            if not any(self.traces.meets(node) for node in handled):
                yield self._as_parting(one, step, (ERRORS,), "except", met, None, sure=False)

    def _works_before(self, block: Block, one: FunctionDefinition, deep: int) -> bool:
        """Something that may fail comes before the last collective of a block, here or in the function it calls."""
        meeting = [step for step in block if self.next.met(step, one, PathAssumptions(), 12) is not None]
        if not meeting or not deep:
            return False
        if meeting[-1] is not block[0]:
            return True
        first = block[0]
        targets = [t for t in first.targets if t in self.ways.flow.reads] if isinstance(first, CallStep) else []
        inner = any(self._works_before(self.ways.flow.reads[target].steps, target, deep - 1) for target in targets)
        return inner or any(self._works_before(part, one, deep) for part in inner_blocks(first))

    def _parted(self, one: FunctionDefinition, read: FunctionReading, leaf: TestTerm) -> PathDivergence | None:
        ranks = not leaf.kinds.isdisjoint(_OF_RANKS)
        for unsure in (False,) if self.parts else (False, True):
            yes = PathAssumptions(leaf.key, truth=True, groups=not ranks, unsure=unsure, parts=self.parts)
            no = replace(yes, truth=False)
            ways = self.traces.of(one, yes), self.traces.of(one, no)
            if ways[0] == ways[1] or RAISE in ways:
                continue
            if leaf.key in (RANK_ZERO, LOCAL_ZERO) and self._evened(one, yes, no):
                continue
            found = self._explained(one, read, leaf, yes, no)
            if found is not None:
                return found
        return None

    def _evened(self, one: FunctionDefinition, yes: PathAssumptions, no: PathAssumptions) -> bool:
        """All its callers meet the same on both ways: what is missing here is made up for there."""
        callers = {caller for caller, _ in self.next.callers.get(one, ()) if caller in self.ways.launch}
        return bool(callers) and all(self.traces.of(c, yes) == self.traces.of(c, no) for c in callers)

    # -- which branch, and what is missed

    def _explained(
        self, one: FunctionDefinition, read: FunctionReading, leaf: TestTerm, yes: PathAssumptions, no: PathAssumptions
    ) -> PathDivergence | None:
        for step, path in paths_to_steps(read.steps):
            mine = _asked(step, leaf.key, self.asked) if isinstance(step, BranchStep) else None
            if not isinstance(step, BranchStep) or mine is None:
                continue
            sides = self.traces.alone((step,), yes), self.traces.alone((step,), no)
            if sides[0] == sides[1] or RAISE in sides:
                continue
            found = self._inside(one, step, mine, path, yes) or self._around(one, step, mine, path, yes)
            if found is not None:
                return found
        return None

    def _inside(
        self, one: FunctionDefinition, step: BranchStep, mine: TestTerm, path: StepPath, assumed: PathAssumptions
    ) -> PathDivergence | None:
        """The collective stands on one side of the branch."""
        first, second = self.next.first(step.then, one, assumed), self.next.first(step.other, one, assumed)
        if first is not None and second is not None and first.op.name == second.op.name:
            return None
        met = first or second
        if met is None:
            return None
        others = (second if met is first else None) or self.next.after(one, path, assumed)
        return self._parting(one, step, mine, "if" if met is first else "else", met, others)

    def _around(
        self, one: FunctionDefinition, step: BranchStep, mine: TestTerm, path: StepPath, assumed: PathAssumptions
    ) -> PathDivergence | None:
        """One side leaves, and the collective comes later."""
        for leave in (*_exits(step.then), *_exits(step.other)):
            met = self._behind(one, path, leave.kind, assumed)
            if met is None:
                continue
            if FILES in mine.kinds and not self._is_written(one, mine, step.line):
                return None
            return self._parting(one, step, mine, leave.kind, met, None)
        return None

    def _behind(
        self, one: FunctionDefinition, path: StepPath, kind: str, assumed: PathAssumptions
    ) -> ReachedCollective | None:
        """The first collective that an exit of this kind leads around."""
        if kind not in ("return", "break", "continue"):
            return None
        for level in range(len(path) - 1, -1, -1):
            block, at = path[level]
            owner = path[level - 1][0][path[level - 1][1]] if level else None
            met = self.next.first(block[at + 1 :], one, assumed)
            if met is not None:
                return met
            if isinstance(owner, LoopStep):
                if kind == "continue":
                    return None
                met = self.next.first(owner.body, one, assumed)
                if met is not None:
                    return met
                if kind == "break":
                    return None
        return None

    def _parting(
        self,
        one: FunctionDefinition,
        step: BranchStep,
        leaf: TestTerm,
        kind: str,
        met: ReachedCollective,
        others: ReachedCollective | None,
    ) -> PathDivergence | None:
        asked = FILES in leaf.kinds and kind in ("if", "else") and not leaf.kinds & {RANK, LOCAL}
        if asked and not is_written_by_some_ranks(leaf.path, one, self.ways.flow.calls):
            return None
        if not met.proved or (met.op.name == "forward" and not self._gets_wrapped(met)):
            return None
        why = tuple(kind for kind in self.asked if kind in leaf.kinds)
        sure = bool(leaf.kinds & {RANK, LOCAL}) and not leaf.kinds & {DATA, TIME, FILES, CHANCE, SETTING, GROUP_RANK}
        sure = sure and not _may_hold_for_all(step, leaf)
        found = self._as_parting(one, step, why, kind, met, others, sure=sure and met.certain and met.op.sure)
        if met.op.name != "forward" or met.op.sure:
            return found
        buffers = self.ways.flow.around.wrapped.broadcasts
        return None if buffers is False else replace(found, doubtful=buffers is None)

    def _gets_wrapped(self, met: ReachedCollective) -> bool:
        """The calls of this way hand the wrapped model down, and not another one to the same parameter."""
        calls, wrapped = self.ways.flow.calls, self.ways.flow.around.wrapped
        name, target = met.op.text, met.op.here
        for caller, line, _ in reversed(met.chain):
            if name not in target.parameters:
                return True
            given = (
                values.get(name)
                for call in caller.calls
                if call.lineno == line
                for one, values in calls.arguments(call, caller)
                if one is target
            )
            value = next((one for one in given if one is not None), None)
            if value is None:
                return True
            if not wrapped.holds(value, caller):
                return False
            name, target = expression_text(value), caller
        return True

    def _as_parting(
        self,
        one: FunctionDefinition,
        step: BranchStep | LoopStep | TryStep,
        why: tuple[str, ...],
        kind: str,
        met: ReachedCollective,
        others: ReachedCollective | None,
        *,
        sure: bool,
    ) -> PathDivergence:
        return PathDivergence(
            one.at(step.line, "try" if isinstance(step, TryStep) else step.text),
            kind,
            why,
            met.op.at,
            tuple(f.at(line, text) for f, line, text in met.chain),
            self.ways.launch[one],
            others.op.at if others is not None else None,
            sure,
        )

    def _is_written(self, one: FunctionDefinition, leaf: TestTerm, asked: int) -> bool:
        """The program itself makes the file that the test at line ``asked`` asks for, here, and no collective stands
        between the two: so ranks see it at different times."""
        for node in own_nodes(one.node):
            if isinstance(node, ast.Call) and call_name(node) in source_names("writes_file") and leaf.path:
                words = [expression_text(arg) for arg in (*node.args, *(word.value for word in node.keywords))]
                behind = expression_text(node.func.value) if isinstance(node.func, ast.Attribute) else ""
                reads = call_name(node) == "open" and not any(mode in words for mode in ("'w'", "'wb'", "'a'", "'x'"))
                if (leaf.path in words or leaf.path == behind) and not reads:
                    return not self._waited(one, node.lineno, asked)
        return False

    def _waited(self, one: FunctionDefinition, first: int, last: int) -> bool:
        """All ranks meet in a collective between two lines."""
        between = (
            s
            for s in steps_of(self.ways.flow.reads[one].steps)
            if isinstance(s, CollectiveStep | CallStep) and first < s.line < last
        )
        met = (self.next.met(step, one, PathAssumptions(), 12) for step in between)
        return any(found is not None and found.certain for found in met)


def _asked(step: BranchStep, key: str, asked: Sequence[str]) -> TestTerm | None:
    """The part of the test with this key, where ranks may answer it differently."""
    return next((one for one in test_terms(step.test) if one.key == key and one.kinds & set(asked)), None)


def _may_hold_for_all(step: BranchStep, leaf: TestTerm) -> bool:
    """``if first or sharded:``: a setting beside the test of the rank may send every rank the same way."""
    others = [one for one in test_terms(step.test) if one.key != leaf.key and one.known is None]
    return step.test.how == "or" and any(one.setting for one in others)


def _exits(block: Block) -> Iterator[ExitStep]:
    """Exits of a block; loops keep their ``break`` and ``continue``."""
    for step in block:
        if isinstance(step, ExitStep):
            yield step
        elif isinstance(step, LoopStep):
            yield from (one for one in _exits(step.body) if one.kind in ("return", "raise"))
        else:
            for inner in inner_blocks(step):
                yield from _exits(inner)


def is_written_by_some_ranks(path: str, here: FunctionDefinition, calls: CallGraph) -> bool:
    """Whether the file that ``path`` spells in ``here`` is written by the program under a test of the rank, and
    nowhere without one."""
    asked = parse_expression(path)
    names = frozenset(_names(asked, here) if asked is not None else ())
    found = [_is_lone(one, call) for one in calls.defined for call in one.calls if _writes(call, one, names)]
    return bool(names) and bool(found) and all(found)


def _writes(node: ast.Call, here: FunctionDefinition, names: frozenset[str]) -> bool:
    if call_name(node) not in source_names("writes_file"):
        return False
    given = [*node.args, *(word.value for word in node.keywords)]
    if call_name(node) == "open" and (len(given) < 2 or expression_text(given[1]) in _READS):
        return False
    behind = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    return any(name in names for one in (*given, *behind) for name in _names(one, here))


def _is_lone(one: FunctionDefinition, node: ast.AST) -> bool:
    line = getattr(node, "lineno", 0)
    place = one.program.place(line)
    return place is not None and rank_branch_at(one.program, place, line) is not None


def _names(node: ast.expr, here: FunctionDefinition, deep: int = 2) -> Iterator[str]:
    """What tells the file from others: the texts in its path, and constants of the program."""
    for inner in walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            last = inner.value.rpartition("/")[2]
            yield from [last] if "." in last.strip(".") else []
        elif isinstance(inner, ast.Name) and inner.id.isupper() and "_" in inner.id.strip("_"):
            yield inner.id
        elif isinstance(inner, ast.Name) and deep:
            for value in assigned_values(here.node, inner.id):
                yield from _names(value, here, deep - 1) if value is not None else ()
