"""What a value may be: why it differs by rank, which test it holds; and what is known so over a whole program."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING

from unhang.program.data_flow.function_steps import CHANCE, LOCAL, NAMED, RANK, TIME
from unhang.program.syntax.syntax_tree import Scope

if TYPE_CHECKING:
    from unhang.program.syntax.call_graph import CallGraph
    from unhang.program.syntax.definitions import ClassDefinition, FunctionDefinition

LOOP, EQUAL, FILLED, SIFTED = "loop", "equal", "filled", "sifted"
"""Made by a loop over data, by a collective that gives every rank the same, by putting something into a container, by
keeping what this rank's own data say."""
NO_ORIGINS: frozenset[str] = frozenset()
RANK_ORIGINS = frozenset({RANK, NAMED, LOCAL})
GROUP_RANK = "rank of a group"
PER_RANK_ORIGINS = RANK_ORIGINS | {GROUP_RANK, TIME, CHANCE}
"""What makes a test differ by rank and says so of any value that depends on the test."""


@dataclass(frozen=True, slots=True)
class ValueOrigin:
    """Why a value may differ by rank (``kinds``), the test of the first rank that it holds and whether it agrees with
    it (``key``), and the call that made it (``made``)."""

    kinds: frozenset[str] = NO_ORIGINS
    key: tuple[str, bool] | None = None
    made: object = None
    only: bool = False
    """Set on some ranks only: ``is None`` tells them apart too."""
    parts: tuple[ValueOrigin, ...] = ()
    """Of a tuple, or of a dict that is written out."""
    keys: tuple[object, ...] = ()
    """Of such a dict."""


PLAIN_VALUE = ValueOrigin()


@dataclass(slots=True)
class ProgramKnowledge:
    """Results of the data flow over the whole program: return values, parameters and attributes that differ by rank."""

    calls: CallGraph
    returns: dict[FunctionDefinition, ValueOrigin] = field(default_factory=dict)
    parameters: dict[tuple[FunctionDefinition, str], frozenset[str]] = field(default_factory=dict)
    attributes: dict[tuple[ClassDefinition | None, str], ValueOrigin] = field(default_factory=dict)
    finals: dict[Scope, dict[str, ValueOrigin]] = field(default_factory=dict)
    loops: dict[ast.AST, dict[str, ValueOrigin]] = field(default_factory=dict)
    """Values at the end of the body of each loop, from the reading before."""
    seeds: frozenset[str] = NO_ORIGINS
    """Global generators that the program seeds alike on all ranks."""
    sets: dict[tuple[FunctionDefinition, str], tuple[FunctionDefinition, ast.expr]] = field(default_factory=dict)
    """Where a parameter is given what has the order of a set."""
    learned: ProgramKnowledge | None = None
    """What this reading adds up, for the next."""

    def read_again(self, *, loops: bool) -> ProgramKnowledge:
        """For the next reading: what this one learned, nothing older; ``loops`` where it knew enough."""
        new = self.learned or ProgramKnowledge(self.calls, seeds=self.seeds)
        new.loops = new.loops if loops else {}
        new.returns, new.finals, new.sets, new.learned = (
            self.returns,
            self.finals,
            self.sets,
            ProgramKnowledge(self.calls, seeds=self.seeds),
        )
        return new

    def learn_parameter(self, one: FunctionDefinition, name: str, kinds: frozenset[str]) -> None:
        """Joins what a parameter may be given."""
        self.parameters[one, name] = self.parameters.get((one, name), NO_ORIGINS) | kinds

    def learn_attribute(self, owner: ClassDefinition | None, name: str, value: ValueOrigin) -> None:
        """Joins what an attribute may hold."""
        old = self.attributes.get((owner, name))
        if old is None or old == value:
            self.attributes[owner, name] = value
        else:
            self.attributes[owner, name] = either_value(old, value)


def either_value(one: ValueOrigin, other: ValueOrigin) -> ValueOrigin:
    """Either of two values."""
    key = one.key if one.key == other.key else None
    made = one.made if one.made == other.made else None
    alike = bool(one.parts and other.parts) and one.keys == other.keys  # tuples of one and of more members, too
    pairs = zip_longest(one.parts, other.parts, fillvalue=PLAIN_VALUE) if alike else ()
    parts = tuple(either_value(*pair) for pair in pairs)
    return ValueOrigin(one.kinds | other.kinds, key, made, one.only or other.only, parts, one.keys if alike else ())
