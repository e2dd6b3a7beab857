"""What a value may be: why it differs by rank, which test it holds; and what is known so over a whole program."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from unhang.program.data_flow.function_steps import CHANCE, LOCAL, NAMED, RANK, TIME
from unhang.program.syntax.call_graph import ProgramCalls
from unhang.program.syntax.definitions import Class, Defined
from unhang.program.syntax.syntax_tree import Scope

LOOP, EQUAL, FILLED, SIFTED = "loop", "equal", "filled", "sifted"
"""Made by a loop over data, by a collective that gives every rank the same, by putting something into a container, by
keeping what this rank's own data say."""
NONE: frozenset[str] = frozenset()
RANKS = frozenset({RANK, NAMED, LOCAL})
OTHER = "rank of a group"
BY_ITSELF = RANKS | {OTHER, TIME, CHANCE}
"""What makes a test differ by rank and says so of any value that depends on the test."""


@dataclass(frozen=True, slots=True)
class Value:
    """``kinds``: why it may differ; ``key``: the test of the first rank that it holds, and whether it agrees with it;
    ``made``: the place that gave it."""

    kinds: frozenset[str] = NONE
    key: tuple[str, bool] | None = None
    made: object = None
    only: bool = False
    """Set on some ranks only: ``is None`` tells them apart too."""
    parts: tuple[Value, ...] = ()
    """Of a tuple that a function returns."""


PLAIN = Value()


@dataclass(slots=True)
class Known:
    """What is known of the whole program."""

    calls: ProgramCalls
    returns: dict[Defined, Value] = field(default_factory=dict)
    parameters: dict[tuple[Defined, str], frozenset[str]] = field(default_factory=dict)
    attributes: dict[tuple[Class | None, str], Value] = field(default_factory=dict)
    finals: dict[Scope, dict[str, Value]] = field(default_factory=dict)
    loops: dict[ast.AST, dict[str, Value]] = field(default_factory=dict)
    """Values at the end of the body of each loop, from the reading before."""
    seeds: frozenset[str] = NONE
    """Global generators that the program seeds alike on all ranks."""
    sets: dict[tuple[Defined, str], tuple[Defined, ast.expr]] = field(default_factory=dict)
    """Where a parameter is given what has the order of a set."""
    learned: Known | None = None
    """What this reading adds up, for the next."""

    def read_again(self, *, loops: bool) -> Known:
        """For the next reading: what this one learned, nothing older; ``loops`` where it knew enough."""
        new = self.learned or Known(self.calls, seeds=self.seeds)
        new.loops = new.loops if loops else {}
        new.returns, new.finals, new.sets, new.learned = (
            self.returns,
            self.finals,
            self.sets,
            Known(self.calls, seeds=self.seeds),
        )
        return new

    def learn_parameter(self, one: Defined, name: str, kinds: frozenset[str]) -> None:
        """Joins what a parameter may be given."""
        self.parameters[one, name] = self.parameters.get((one, name), NONE) | kinds

    def learn_attribute(self, owner: Class | None, name: str, value: Value) -> None:
        """Joins what an attribute may hold."""
        old = self.attributes.get((owner, name))
        if old is None or old == value:
            self.attributes[owner, name] = value
        else:
            self.attributes[owner, name] = joined(old, value)


def joined(one: Value, other: Value) -> Value:
    """Either of two values."""
    key = one.key if one.key == other.key else None
    made = one.made if one.made == other.made else None
    alike = len(one.parts) == len(other.parts)
    parts = tuple(joined(*pair) for pair in zip(one.parts, other.parts, strict=False)) if alike else ()
    return Value(one.kinds | other.kinds, key, made, one.only or other.only, parts)
