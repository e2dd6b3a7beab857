"""The collectives that a rank meets on its way, as a graph in which two equal ways are one and the same node.

A node says what comes first and what follows; a test that nobody knows leads to two nodes. A way that ends in an
exception counts as none: it ends the job, and does not stall it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from unhang.program.data_flow.constant_arguments import NO_CONSTANTS, Constants, callee_constants, evaluate_test
from unhang.program.data_flow.function_steps import (
    LOCAL_ZERO,
    RANK_ZERO,
    Block,
    BranchStep,
    BranchTest,
    CallStep,
    CollectiveStep,
    ExitStep,
    FunctionReading,
    LoopStep,
    ModelPartStep,
    Step,
    TestTerm,
    TryStep,
)
from unhang.program.syntax.definitions import FunctionDefinition

END, RAISE, NEXT, BREAK, RETURN, MARK = range(6)
_MAX_SPLICED = 12
_MAX_DEPTH = 60


@dataclass(frozen=True, slots=True)
class PathAssumptions:
    """What a test with this ``key`` says; ``groups``: collectives of named groups count too; ``unsure``: also what is
    a collective only perhaps; ``parts``: parts of the model count, and nothing else."""

    key: str = ""
    truth: bool = True
    groups: bool = True
    unsure: bool = False
    parts: bool = False
    constants: Constants = NO_CONSTANTS
    """What parameters of the function hold on the way that leads here."""

    def counts(self, op: CollectiveStep) -> bool:
        """Whether this collective takes part."""
        if self.parts:
            return False
        perhaps = op.sure or (self.unsure and op.name != "backward")
        return perhaps and (self.groups or not op.group)

    def in_call(self, step: CallStep, target: FunctionDefinition) -> PathAssumptions:
        """What of it holds in ``target``, which ``step`` calls."""
        return replace(self.above(), constants=callee_constants(step.handed.get(target, ()), self.constants))

    def above(self) -> PathAssumptions:
        """What of it holds in a function that calls this one."""
        kept = self.key if self.key in (RANK_ZERO, LOCAL_ZERO) else ""
        return replace(self, key=kept, constants=NO_CONSTANTS)

    def truth_of(self, leaf: TestTerm) -> bool | None:
        """What a test says, as far as that is known."""
        told = evaluate_test(leaf.text, self.constants) if self.constants else None
        if told is not None:
            return told
        if leaf.known is not None:
            return leaf.known
        return leaf.positive == self.truth if self.key and leaf.key == self.key else None


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where ``return``, ``break``, ``continue`` and ``raise`` lead, and what stands for ``yield``."""

    back: int = END
    out: int = END
    again: int = END
    lost: int = RAISE
    inside: Callable[[int], int] | None = None


class CollectiveTraces:
    """Traces of all functions that were read."""

    def __init__(self, reads: Mapping[FunctionDefinition, FunctionReading]) -> None:
        self.reads = reads
        self._nodes: dict[tuple[object, ...], int] = {}
        self._content: list[tuple[object, ...]] = [("end", n) for n in range(6)]
        self._summaries: dict[tuple[FunctionDefinition, PathAssumptions], int] = {}
        self._meets: dict[int, bool] = {}
        self._deep = 0

    def of(self, one: FunctionDefinition, assumed: PathAssumptions) -> int:
        """What is met in a function."""
        known = self._summaries.get((one, assumed))
        if known is not None:
            return known
        self._summaries[one, assumed] = END  # a function that calls itself adds nothing
        read = self.reads.get(one)
        if read is not None and self._deep < _MAX_DEPTH:
            self._deep += 1
            self._summaries[one, assumed] = self.block(read.steps, assumed, END, _Frame())
            self._deep -= 1
        return self._summaries[one, assumed]

    def alone(self, block: Block, assumed: PathAssumptions) -> int:
        """What is met in a block, and how it is left."""
        return self.block(block, assumed, MARK, _Frame(RETURN, BREAK, NEXT, RAISE))

    def meets(self, node: int) -> bool:
        """Whether any collective stands on a way from ``node``."""
        known = self._meets.get(node)
        if known is not None:
            return known
        kind, *rest = self._content[node]
        if kind in ("op", "call"):
            self._meets[node] = True
        elif kind in ("alt", "loop"):
            self._meets[node] = any(self.meets(one) for one in rest[1:] if isinstance(one, int))
        else:
            self._meets[node] = False
        return self._meets[node]

    # -- building

    def block(self, block: Block, assumed: PathAssumptions, after: int, frame: _Frame) -> int:
        """The trace of ``block`` where ``after`` follows it."""
        for step in reversed(block):
            after = self._step(step, assumed, after, frame)
        return after

    def _step(self, step: Step, assumed: PathAssumptions, after: int, frame: _Frame) -> int:
        if isinstance(step, CollectiveStep):
            return self._node("op", step.name, step.group, after) if assumed.counts(step) else after
        if isinstance(step, ModelPartStep):
            return self._node("op", step.name, "", after) if assumed.parts else after
        if isinstance(step, ExitStep):
            return self._left(step, after, frame)
        if isinstance(step, BranchStep):
            then = self.block(step.then, assumed, after, frame)
            other = self.block(step.other, assumed, after, frame)
            return self._decided(step.test, then, other, assumed)
        if isinstance(step, LoopStep):
            return self._looped(step, assumed, after, frame)
        if isinstance(step, TryStep):
            return self._guarded(step, assumed, after, frame)
        return self._called(step, assumed, after, frame) if isinstance(step, CallStep) else after

    def _left(self, step: ExitStep, after: int, frame: _Frame) -> int:
        if step.kind == "yield":
            return frame.inside(after) if frame.inside is not None else after
        ways = {"return": frame.back, "break": frame.out, "continue": frame.again, "raise": frame.lost}
        return ways[step.kind]

    def _looped(self, step: LoopStep, assumed: PathAssumptions, after: int, frame: _Frame) -> int:
        body = self.block(step.body, assumed, NEXT, _Frame(RETURN, BREAK, NEXT, frame.lost, frame.inside))
        after = self.block(step.orelse, assumed, after, frame)
        returns = self._reaches(body, RETURN)
        if self.meets(body):
            return self._node("loop", "", body, frame.back if returns else after, after)
        return self._node("alt", f"loop {step.text}", frame.back, after) if returns else after

    def _guarded(self, step: TryStep, assumed: PathAssumptions, after: int, frame: _Frame) -> int:
        def at_last(node: int) -> int:
            return self.block(step.final, assumed, node, frame) if step.final else node

        outer = replace(
            frame,
            back=at_last(frame.back),
            out=at_last(frame.out),
            again=at_last(frame.again),
            lost=at_last(frame.lost),
        )
        after = at_last(after)
        caught = [self.block(handler, assumed, after, outer) for handler in step.handlers]
        lost = next((one for one in caught if one != RAISE), outer.lost)
        orelse = self.block(step.orelse, assumed, after, outer)
        return self.block(step.body, assumed, orelse, replace(outer, lost=lost))

    def _called(self, step: CallStep, assumed: PathAssumptions, after: int, frame: _Frame) -> int:
        if step.inside is not None:
            return self._entered(step, assumed, after, frame)
        if step.perhaps and not assumed.unsure:
            return after
        ways = dict.fromkeys(self.of(one, assumed.in_call(step, one)) for one in step.targets)
        found = [self._then(one, after) for one in ways if one != RAISE]
        if not found:
            return RAISE if ways and len(step.targets) == 1 else after
        node = found[0]
        for one in found[1:]:
            node = self._node("alt", f"target {step.text}", node, one)
        return node

    def _entered(self, step: CallStep, assumed: PathAssumptions, after: int, frame: _Frame) -> int:
        inside, target = step.inside, step.targets[0]
        read = self.reads.get(target)
        if inside is None or read is None or self._deep >= _MAX_DEPTH:
            return self.block(inside or (), assumed, after, frame)
        self._deep += 1
        own = _Frame(after, END, END, frame.lost, lambda rest: self.block(inside, assumed, rest, frame))
        node = self.block(read.steps, assumed.in_call(step, target), after, own)
        self._deep -= 1
        return node

    def _then(self, node: int, after: int) -> int:
        """``node`` and then ``after``: a short way is written out, so that it equals one that is written so."""
        chain: list[tuple[object, ...]] = []
        at = node
        while self._content[at][0] == "op" and len(chain) < _MAX_SPLICED:
            chain.append(self._content[at])
            at = self._last(at)
        if at != END:
            return self._node("call", node, after)
        for _, name, group, _ in reversed(chain):
            after = self._node("op", name, group, after)
        return after

    def _last(self, node: int) -> int:
        last = self._content[node][-1]
        return last if isinstance(last, int) else END

    def _decided(self, test: BranchTest, then: int, other: int, assumed: PathAssumptions) -> int:
        if then == other:
            return then
        if test.how == "not":
            return self._decided(test.parts[0], other, then, assumed)
        if test.how == "and":
            for part in reversed(test.parts):
                then = self._decided(part, then, other, assumed)
            return then
        if test.how == "or":
            for part in reversed(test.parts):
                other = self._decided(part, then, other, assumed)
            return other
        leaf = test.leaf
        if leaf is None:
            return then
        truth = assumed.truth_of(leaf)
        if truth is not None:
            return then if truth else other
        return self._node("alt", leaf.key, *((then, other) if leaf.positive else (other, then)))

    def _node(self, kind: str, *parts: object) -> int:
        if kind == "alt":
            _, one, other = parts
            if one == other or other == RAISE:
                return one if isinstance(one, int) else END
            if one == RAISE:
                return other if isinstance(other, int) else END
        elif parts[-1] == RAISE:
            return RAISE
        key = (kind, *parts)
        if key not in self._nodes:
            self._nodes[key] = len(self._content)
            self._content.append(key)
        return self._nodes[key]

    def _reaches(self, node: int, end: int) -> bool:
        seen, waiting = {node}, [node]
        while waiting:
            at = waiting.pop()
            if at == end:
                return True
            kind, *rest = self._content[at]
            inner = rest[1:] if kind in ("alt", "loop") else rest[-1:]
            for one in inner if kind != "end" else ():
                if isinstance(one, int) and one not in seen:
                    seen.add(one)
                    waiting.append(one)
        return False
