"""Where ranks part: one way meets a collective, and the other does not meet it. What is known of one program."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from unhang.program.data_flow.function_steps import Block, CollectiveStep
from unhang.program.data_flow.program_flow import ProgramFlow
from unhang.program.paths.collective_traces import CollectiveTraces, PathAssumptions
from unhang.program.paths.next_collective import NextCollective
from unhang.program.syntax.definitions import FunctionDefinition, SourceLine


@dataclass(frozen=True, slots=True)
class PathDivergence:
    """Ranks for which ``test`` holds (or does not) meet ``call`` and the others do not.

    ``kind``: ``if``, ``else`` (the call stands on that side), or the exit that leads around it: ``return``, ``break``,
    ``continue``. ``why``: the kinds of values by which ranks differ. ``chain``: calls from the branch to the
    collective; ``launch``: how the program comes to the function. ``others``: where the others wait, if that is known.
    ``doubtful``: whether it is a collective depends on buffers that nobody saw.
    """

    branch: SourceLine
    kind: str
    why: tuple[str, ...]
    call: SourceLine
    chain: tuple[SourceLine, ...]
    launch: tuple[SourceLine, ...]
    others: SourceLine | None
    sure: bool
    doubtful: bool = False


@dataclass
class ProgramPaths:
    """What was found in one program: the values and steps of its functions, their paths and where they diverge."""

    flow: ProgramFlow
    launch: dict[FunctionDefinition, tuple[SourceLine, ...]]
    traces: CollectiveTraces
    partly: bool = False
    partings: tuple[PathDivergence, ...] = field(default=())
    left_out: tuple[PathDivergence, ...] = field(default=())
    """Where a part of the model is used on some ranks only."""

    @cached_property
    def next(self) -> NextCollective:
        """The collective that ranks meet next."""
        return NextCollective(self.flow.reads, self.launch, self.traces)

    def first(self, block: Block, here: FunctionDefinition) -> CollectiveStep | None:
        """The first collective that a block certainly meets, through calls too."""
        met = self.next.first(block, here, PathAssumptions())
        return met.op if met is not None and met.certain else None
