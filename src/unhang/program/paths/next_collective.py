"""The collective that ranks meet next: in a block, behind a branch, or behind the call of their function."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from unhang.program.data_flow.function_steps import (
    Block,
    BranchStep,
    CallStep,
    CollectiveStep,
    ExitStep,
    FunctionReading,
    LoopStep,
    ModelPartStep,
    Step,
    TryStep,
    inner_blocks,
    steps_of,
    test_terms,
)
from unhang.program.paths.collective_traces import CollectiveTraces, PathAssumptions
from unhang.program.syntax.definitions import FunctionDefinition

StepPath: TypeAlias = list[tuple[Block, int]]
"""The blocks around a step, outermost first, and its place in each."""


@dataclass(frozen=True, slots=True)
class ReachedCollective:
    """The next collective on a path, and the calls that lead to it. ``settled``: no setting stands before it."""

    op: CollectiveStep
    chain: tuple[tuple[FunctionDefinition, int, str], ...]
    settled: bool = True
    proved: bool = True
    """False where a parameter of a function that is called decides, which its caller may have given."""
    given: bool = False
    """A parameter of the function it stands in decides."""
    several: bool = False
    """One of several functions of a name, which only running tells apart."""

    @property
    def certain(self) -> bool:
        """Nothing unknown stands before it."""
        return self.settled and not self.several


class NextCollective:
    """Answers for one program."""

    def __init__(
        self,
        reads: Mapping[FunctionDefinition, FunctionReading],
        launch: Collection[FunctionDefinition],
        traces: CollectiveTraces,
    ) -> None:
        self.reads, self.launch, self.traces = reads, launch, traces
        self.callers: dict[FunctionDefinition, list[tuple[FunctionDefinition, int]]] = {}
        for one, read in reads.items():
            for step in steps_of(read.steps):
                if isinstance(step, CallStep):
                    for target in step.targets:
                        self.callers.setdefault(target, []).append((one, step.line))

    def after(
        self, one: FunctionDefinition, path: StepPath, assumed: PathAssumptions, deep: int = 3
    ) -> ReachedCollective | None:
        """What the others meet next: behind the branch, around the loop, or behind the call of the function."""
        for level in range(len(path) - 1, -1, -1):
            block, at = path[level]
            met = self.first(block[at + 1 :], one, assumed)
            if met is not None:
                return met
            owner = path[level - 1][0][path[level - 1][1]] if level else None
            if isinstance(owner, LoopStep) and (met := self.first(owner.body[:at], one, assumed)):
                return met
        callers = self.callers.get(one, ()) if deep else ()
        for caller, line in callers:
            if caller not in self.launch:
                continue
            for step, outer in paths_to_steps(self.reads[caller].steps):
                if isinstance(step, CallStep) and step.line == line:
                    return self.after(caller, outer, assumed.above(), deep - 1)
        return None

    def first(
        self, block: Iterable[Step], here: FunctionDefinition, assumed: PathAssumptions, deep: int = 12
    ) -> ReachedCollective | None:
        """The first collective of a block, in the order of the text."""
        for step in block:
            met = self.met(step, here, assumed, deep)
            if met is not None:
                return met
            if isinstance(step, ExitStep) and step.kind != "yield":
                return None
        return None

    def met(
        self, step: Step, here: FunctionDefinition, assumed: PathAssumptions, deep: int
    ) -> ReachedCollective | None:
        """The first collective in one step."""
        if isinstance(step, CollectiveStep):
            return ReachedCollective(step, ()) if assumed.counts(step) else None
        if isinstance(step, ModelPartStep):
            call = CollectiveStep(step.name, step.name, step.line, step.here, sure=False)
            return ReachedCollective(call, ()) if assumed.parts else None
        if isinstance(step, CallStep):
            return self._in_call(step, here, assumed, deep)
        if isinstance(step, BranchStep):
            return self._on_a_side(step, here, assumed, deep)
        if isinstance(step, TryStep):
            return self.first((*step.body, *step.orelse, *step.final), here, assumed, deep)
        return self.first(step.body, here, assumed, deep) if isinstance(step, LoopStep) else None

    def _in_call(
        self, step: CallStep, here: FunctionDefinition, assumed: PathAssumptions, deep: int
    ) -> ReachedCollective | None:
        for target in step.targets if deep and (assumed.unsure or not step.perhaps) else ():
            read, inner = self.reads.get(target), assumed.in_call(step, target)
            if read is None or not self.traces.meets(self.traces.of(target, inner)):
                continue
            met = self.first(read.steps, target, inner, deep - 1)
            if met is not None:
                chain = ((here, step.line, step.text), *met.chain)
                several = met.several or step.perhaps or len(step.targets) > 1
                proved = met.proved and not met.given
                return ReachedCollective(met.op, chain, met.settled, proved, several=several)
        return self.first(step.inside, here, assumed, deep) if step.inside is not None else None

    def _on_a_side(
        self, step: BranchStep, here: FunctionDefinition, assumed: PathAssumptions, deep: int
    ) -> ReachedCollective | None:
        side = _known_side(step, assumed)
        if side is not None:
            return self.first(side, here, assumed, deep)
        sides = [self.first(block, here, assumed, deep) for block in (step.then, step.other)]
        met = next((one for one in sides if one is not None), None)
        if met is None:
            return None
        settings = [] if all(sides) else [leaf for leaf in test_terms(step.test) if leaf.setting]
        given = any(leaf.setting == "given" for leaf in settings)
        return replace(met, settled=met.settled and not settings, given=met.given or given)


def _known_side(step: BranchStep, assumed: PathAssumptions) -> Block | None:
    negated = step.test.how == "not"
    leaf = step.test.parts[0].leaf if negated else step.test.leaf
    if leaf is None:
        known = [assumed.truth_of(part.leaf) for part in step.test.parts if part.leaf is not None]
        if step.test.how == "and" and len(known) == len(step.test.parts) and all(known):
            return step.then
        if step.test.how == "or" and any(known):
            return step.then
        return None
    truth = assumed.truth_of(leaf)
    if truth is None:
        return None
    return step.then if truth != negated else step.other


def paths_to_steps(block: Block, above: Sequence[tuple[Block, int]] = ()) -> Iterator[tuple[Step, StepPath]]:
    """Every step, with the way to it."""
    for at, step in enumerate(block):
        here = [*above, (block, at)]
        yield step, here
        for inner in inner_blocks(step):
            yield from paths_to_steps(inner, here)
