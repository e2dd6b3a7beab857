"""Long work of some ranks before a collective in which the others wait, and waits that never run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

from unhang.program.data_flow.function_steps import (
    LOCAL_ZERO,
    POLL,
    RANK_ZERO,
    Block,
    BranchStep,
    CallStep,
    CollectiveStep,
    ExitStep,
    LoopStep,
    Step,
    TryStep,
    WorkStep,
    inner_blocks,
    steps_of,
    test_terms,
)
from unhang.program.paths.divergent_paths import ProgramPaths
from unhang.program.paths.next_collective import StepPath, paths_to_steps
from unhang.program.syntax.definitions import FunctionDefinition, SourceLine

_MAX_DEPTH = 8


@dataclass(frozen=True, slots=True)
class WorkBeforeWait:
    """``work`` is done where ``branch`` holds; the others go on to ``waits``. ``chain``: calls down to the work."""

    branch: SourceLine
    work: SourceLine
    chain: tuple[SourceLine, ...]
    waits: SourceLine


@dataclass(frozen=True, slots=True)
class UnenteredContext:
    """A context manager that waits, called at ``call`` without ``with``; ``waits``: where it would."""

    call: SourceLine
    waits: SourceLine


def work_before_waits(ways: ProgramPaths) -> Iterator[WorkBeforeWait]:
    """Downloads and copies of one rank, outside loops of steps too."""
    search = _Search(ways)
    for one, read in ways.flow.reads.items():
        for step, path in paths_to_steps(read.steps):
            if not isinstance(step, BranchStep) or not any(
                x.key in (RANK_ZERO, LOCAL_ZERO) for x in test_terms(step.test)
            ):
                continue
            sides = [search.work(side, one, _MAX_DEPTH) for side in (step.then, step.other)]
            found = next((side for side in sides if side is not None), None)
            if found is None or all(sides):
                continue
            waits = search.next_wait(path)
            if waits is not None:
                work, chain = found
                at = one.at(step.line, step.text)
                yield WorkBeforeWait(at, work.at, chain, waits.at)


def unentered_contexts(ways: ProgramPaths) -> Iterator[UnenteredContext]:
    """Context managers whose wait is lost because nobody enters them."""
    for one, read in ways.flow.reads.items():
        for call, target in read.unused:
            inner = ways.flow.reads.get(target)
            steps = steps_of(inner.steps) if inner is not None else ()
            waits = next((step for step in steps if isinstance(step, CollectiveStep) or _polls(step)), None)
            if waits is not None:
                yield UnenteredContext(one.at(call.lineno, f"{target.name}()"), waits.at)


def _ends_search(step: Step) -> TypeGuard[CollectiveStep | WorkStep | ExitStep]:
    """A collective, a poll, or the end of the function."""
    return isinstance(step, CollectiveStep) or _polls(step) or (isinstance(step, ExitStep) and step.kind != "yield")


def _polls(step: Step) -> TypeGuard[WorkStep]:
    return isinstance(step, WorkStep) and step.kind == POLL


class _Search:
    def __init__(self, ways: ProgramPaths) -> None:
        self.ways = ways
        self._works: dict[FunctionDefinition, tuple[WorkStep, tuple[SourceLine, ...]] | None] = {}

    def work(self, block: Block, here: FunctionDefinition, deep: int) -> tuple[WorkStep, tuple[SourceLine, ...]] | None:
        """The first long work of a block that meets no collective, with the calls that lead there."""
        for step in block:
            if isinstance(step, WorkStep) and step.kind != POLL:
                return step, ()
            found = self._called(step, here, deep) if isinstance(step, CallStep) else None
            for inner in inner_blocks(step):
                found = found or self.work(inner, here, deep)
            if found is not None:
                return found
        return None

    def _called(
        self, step: CallStep, here: FunctionDefinition, deep: int
    ) -> tuple[WorkStep, tuple[SourceLine, ...]] | None:
        for target in step.targets if deep else ():
            if target not in self._works:
                self._works[target] = None
                read = self.ways.flow.reads.get(target)
                self._works[target] = self.work(read.steps, target, deep - 1) if read is not None else None
            found = self._works[target]
            if found is not None:
                return found[0], (here.at(step.line, step.text), *found[1])
        return None

    def next_wait(self, path: StepPath) -> CollectiveStep | None:
        """The collective that comes behind the branch in this function; none where ranks poll for something first."""
        for level in range(len(path) - 1, -1, -1):
            block, at = path[level]
            rest: Block = block[at + 1 :]
            owner = path[level - 1][0][path[level - 1][1]] if level else None
            if isinstance(owner, TryStep) and block is owner.body:
                rest = (*rest, *owner.orelse, *owner.final)
            elif isinstance(owner, TryStep) and block is not owner.final:
                rest = (*rest, *owner.final)
            met = self._met(rest, _MAX_DEPTH)
            if met is not None:
                return met if isinstance(met, CollectiveStep) else None
        return None

    def _met(self, block: Block, deep: int) -> CollectiveStep | WorkStep | ExitStep | None:
        for step in block:
            if _ends_search(step):
                return step
            found: CollectiveStep | WorkStep | ExitStep | None = None
            if isinstance(step, CallStep) and deep:
                for target in step.targets:
                    read = self.ways.flow.reads.get(target)
                    found = found or (self._met(read.steps, deep - 1) if read is not None else None)
                found = None if isinstance(found, ExitStep) else found
                found = found or self._met(step.inside or (), deep)
            elif isinstance(step, TryStep):
                found = self._met((*step.body, *step.orelse, *step.final), deep)
            elif isinstance(step, BranchStep | LoopStep):
                inner = (self._met(one, deep) for one in inner_blocks(step))
                found = next((one for one in inner if one is not None and not isinstance(one, ExitStep)), None)
            if found is not None:
                return found
        return None
