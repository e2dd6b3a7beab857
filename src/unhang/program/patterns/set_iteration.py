"""Loops in the order of a set, with collectives inside: another process goes through it in another order."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from unhang.program.data_flow.function_steps import ORDER, LoopStep, steps_of
from unhang.program.paths.collective_traces import PathAssumptions
from unhang.program.paths.divergent_paths import ProgramPaths
from unhang.program.syntax.definitions import FunctionDefinition, SourceLine
from unhang.program.syntax.syntax_tree import expression_text, names_in

_MAX_CALLS = 6
_CARRIES_NOTHING = {"barrier", "monitored_barrier", "wait_for_everyone"}


@dataclass(frozen=True, slots=True)
class SetIteration:
    """``loop`` goes through a set; ``call`` in it meets what another rank sends for another member."""

    loop: SourceLine
    call: SourceLine
    chain: tuple[SourceLine, ...]
    given: tuple[SourceLine, ...] = ()
    """Where the set was handed over, the nearest call first."""


def loops_in_set_order(ways: ProgramPaths) -> Iterator[SetIteration]:
    """Such loops of what the launch comes to."""
    for one, read in ways.flow.reads.items():
        for step in steps_of(read.steps):
            if not isinstance(step, LoopStep) or ORDER not in step.kinds:
                continue
            met = ways.next.first(step.body, one, PathAssumptions())
            if met is not None and met.op.name not in _CARRIES_NOTHING:
                chain = tuple(f.at(line, text) for f, line, text in met.chain)
                loop = one.at(step.line, step.text)
                yield SetIteration(loop, met.op.at, chain, tuple(_handed_over(ways, one, step.over)))


def _handed_over(ways: ProgramPaths, here: FunctionDefinition, over: ast.expr) -> Iterator[SourceLine]:
    """The calls that gave the set to the function of the loop."""
    for _ in range(_MAX_CALLS):
        found = next(
            (given for name in names_in(over) if (given := ways.flow.around.known.sets.get((here, name)))), None
        )
        if found is None:
            return
        here, over = found
        yield here.at(over.lineno, expression_text(over))
