"""Where ranks part: one way meets a collective, and the other does not meet it. What is known of one program."""

from __future__ import annotations

from dataclasses import dataclass, field

from unhang.program.data_flow.call_kinds import Around
from unhang.program.data_flow.function_reader import Read
from unhang.program.data_flow.function_steps import Block, Op
from unhang.program.paths.collective_traces import Assumed, Traces
from unhang.program.paths.next_collective import NextCollective
from unhang.program.syntax.call_graph import ProgramCalls
from unhang.program.syntax.definitions import Defined


@dataclass(frozen=True, slots=True)
class At:
    """A line of the program: ``text`` is the call or loop that stands there."""

    path: str
    line: int
    function: str
    text: str


@dataclass(frozen=True, slots=True)
class Parting:
    """Ranks for which ``test`` holds (or does not) meet ``call`` and the others do not.

    ``kind``: ``if``, ``else`` (the call stands on that side), or the exit that leads around it: ``return``, ``break``,
    ``continue``. ``why``: the kinds of values by which ranks differ. ``chain``: calls from the branch to the
    collective; ``launch``: how the program comes to the function. ``others``: where the others wait, if that is known.
    """

    branch: At
    kind: str
    why: tuple[str, ...]
    call: At
    chain: tuple[At, ...]
    launch: tuple[At, ...]
    others: At | None
    sure: bool


@dataclass(slots=True)
class Ways:
    """A program read for its collectives."""

    calls: ProgramCalls
    reads: dict[Defined, Read]
    launch: dict[Defined, tuple[At, ...]]
    traces: Traces
    around: Around
    partly: bool = False
    partings: tuple[Parting, ...] = field(default=())
    left_out: tuple[Parting, ...] = field(default=())
    """Where a part of the model is used on some ranks only."""

    def first(self, block: Block, here: Defined, *, groups: bool) -> Op | None:
        """The first collective that a block certainly meets, through calls too."""
        met = NextCollective(self.reads, self.launch, self.traces).first(block, here, Assumed(groups=groups))
        return met.op if met is not None and met.certain else None
