"""What a function does, as far as collectives are concerned: calls, branches, loops and exits, in their order."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from unhang.program.data_flow.constant_arguments import ConstantArguments
    from unhang.program.syntax.definitions import FunctionDefinition, SourceLine

RANK, NAMED, LOCAL, DATA, TIME, FILES = "rank", "named rank", "local rank", "data", "time", "files"
ERRORS = "errors"
ORDER, CHANCE = "order", "chance"
"""The order of a set, which hashes of this process decide; a number that every rank draws for itself."""
MEMBER = "member"
"""Whether this rank belongs to a group: equal for all that meet in calls of that group, and not for others."""
BATCH = "batch"
"""What the forward of a model is given: every rank has a batch of its own."""
PARTLY = "partly"
"""A container that has more in it on some ranks."""
SETTING = "setting"
"""Beside the rank a setting decides, which may say the same on all ranks."""
POLL = "poll"
"""Kind of work: a loop that sleeps until something is there, and so waits outside any collective."""
RANK_ZERO, LOCAL_ZERO = "<global rank 0>", "<local rank 0>"
"""Keys of tests that ask for the first rank, however they spell it."""


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveStep:
    """A collective at ``line``. ``sure``: it is one in any case; ``group``: a group is named."""

    name: str
    text: str
    line: int
    here: FunctionDefinition
    group: str = ""
    sure: bool = True

    @property
    def at(self) -> SourceLine:
        """Where it stands."""
        return self.here.at(self.line, self.text)


@dataclass(frozen=True, slots=True, eq=False)
class CallStep:
    """A call of the program's own functions; ``inside``: what runs in the middle of a context manager."""

    targets: tuple[FunctionDefinition, ...]
    line: int
    text: str
    inside: Block | None = None
    perhaps: bool = False
    """The name that is called holds something else on another way."""
    handed: Mapping[FunctionDefinition, ConstantArguments] = field(default_factory=dict)
    """What of its parameters each function gets."""


@dataclass(frozen=True, slots=True, eq=False)
class WorkStep:
    """A call that may take minutes."""

    kind: str
    text: str
    line: int
    here: FunctionDefinition

    @property
    def at(self) -> SourceLine:
        """Where it stands."""
        return self.here.at(self.line, self.text)


@dataclass(frozen=True, slots=True, eq=False)
class ModelPartStep:
    """A part of the model, with parameters of its own, is called: its gradients are ready only where it was."""

    name: str
    line: int
    here: FunctionDefinition


@dataclass(frozen=True, slots=True)
class TestTerm:
    """Atomic term of a test. Terms with one ``key`` have equal (``positive``) or opposite values on a rank. ``kinds``:
    why ranks may differ; ``known``: its value in a job of several ranks."""

    key: str
    positive: bool
    text: str
    kinds: frozenset[str] = frozenset()
    known: bool | None = None
    setting: str = ""
    """Configuration may decide it once for all: the object's ``own``, or what was ``given`` to the function."""
    path: str = ""
    """For files: the name that is asked for."""


@dataclass(frozen=True, slots=True)
class BranchTest:
    """A condition: ``and``, ``or``, ``not`` of tests (``parts``), or an atomic one (``leaf``)."""

    how: str
    parts: tuple[BranchTest, ...] = ()
    leaf: TestTerm | None = None

    @property
    def kinds(self) -> frozenset[str]:
        """Why ranks may answer it differently."""
        return frozenset(kind for term in test_terms(self) for kind in term.kinds)

    @property
    def known(self) -> bool | None:
        """What it says in every job of several ranks."""
        if self.leaf is not None:
            return self.leaf.known
        each = [part.known for part in self.parts]
        if self.how == "not":
            return None if each[0] is None else not each[0]
        decides = self.how == "or"
        return decides if decides in each else None if None in each else not decides


@dataclass(frozen=True, slots=True, eq=False)
class BranchStep:
    """``then`` where ``test`` holds, else ``other``."""

    test: BranchTest
    text: str
    line: int
    then: Block
    other: Block


@dataclass(frozen=True, slots=True, eq=False)
class LoopStep:
    """``body`` as often as ``over`` says. ``kinds``: why ranks may go round another number of times."""

    over: ast.expr
    text: str
    line: int
    body: Block
    orelse: Block
    kinds: frozenset[str] = frozenset()
    endless: bool = False
    """``while True``"""


@dataclass(frozen=True, slots=True, eq=False)
class TryStep:
    """``try``: an exception in ``body`` leads to one of ``handlers``."""

    line: int
    body: Block
    handlers: tuple[Block, ...]
    orelse: Block
    final: Block
    swallows: bool = False
    """A handler catches errors of computing, which one rank alone may meet."""


@dataclass(frozen=True, slots=True, eq=False)
class ExitStep:
    """``return``, ``raise``, ``break``, ``continue``; ``yield`` stands for what runs inside a context manager."""

    kind: str
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class ForwardStep:
    """A call of what is named like a model, in a program that shards one: perhaps a collective."""

    text: str
    line: int
    here: FunctionDefinition

    @property
    def at(self) -> SourceLine:
        """Where it stands."""
        return self.here.at(self.line, self.text)


Step: TypeAlias = (
    "CollectiveStep | ForwardStep | CallStep | WorkStep | ModelPartStep | BranchStep | LoopStep | TryStep | ExitStep"
)
Block: TypeAlias = "tuple[Step, ...]"


def test_terms(test: BranchTest) -> tuple[TestTerm, ...]:
    """The atomic terms of a test, from left to right."""
    if test.leaf is not None:
        return (test.leaf,)
    return tuple(leaf for part in test.parts for leaf in test_terms(part))


def inner_blocks(step: Step) -> tuple[Block, ...]:
    """Blocks of statements inside a step: branches, bodies, handlers."""
    if isinstance(step, BranchStep):
        return step.then, step.other
    if isinstance(step, LoopStep):
        return step.body, step.orelse
    if isinstance(step, TryStep):
        return step.body, *step.handlers, step.orelse, step.final
    if isinstance(step, CallStep) and step.inside is not None:
        return (step.inside,)
    return ()


def steps_of(block: Block) -> Iterator[Step]:
    """Every step of a block and of the blocks in it."""
    for step in block:
        yield step
        for inner in inner_blocks(step):
            yield from steps_of(inner)


def may_fall_through(block: Block) -> bool:
    """Whoever comes out of the block goes on behind it, or ends the job with an exception."""
    return not always_exits(block) or getattr(block[-1], "kind", "") == "raise"


def always_exits(block: Block) -> bool:
    """The block is always left before its end."""
    return bool(block) and isinstance(block[-1], ExitStep) and block[-1].kind != "yield"


@dataclass(slots=True)
class FunctionReading:
    """What one function does that matters to collectives: its steps in order, and calls that are wrong in
    themselves."""

    steps: Block
    unused: list[tuple[ast.Call, FunctionDefinition]] = field(default_factory=list)
    """Context managers that are called and not entered."""
    ranks_given: list[tuple[ast.Call, ast.expr, frozenset[str]]] = field(default_factory=list)
    """What is given to ``init_process_group`` as the rank, and why it differs."""
    own_groups: list[tuple[CollectiveStep, str]] = field(default_factory=list)
    """Groups that are made of ranks which differ from process to process, and how these are spelled."""
