"""The smallest set of settings that makes something work: singles first, then all together, cut down.

Nothing is known about how settings act together: one may need another, or undo it. Whatever is given back was seen to
work, and nothing can be left out of it without it failing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise, product
from typing import Protocol, TypeVar


class ConflictingSetting(Hashable, Protocol):
    """Something that can be switched: the variables it sets."""

    @property
    def set(self) -> Mapping[str, str]:
        """Variables and values; two settings of one variable exclude each other."""


Option = TypeVar("Option", bound=ConflictingSetting)
MAX_COMBINATIONS = 8
Works = Callable[[tuple[Option, ...]], bool]


def working_singles(options: Sequence[Option], works: Works[Option]) -> tuple[Option, ...]:
    """Every option that is enough alone, in the order given."""
    return tuple(option for option in options if works((option,)))


def smallest_together(options: Sequence[Option], works: Works[Option]) -> tuple[Option, ...] | None:
    """A set of which nothing can be left out; None when no combination tried works."""
    for combination in full_combinations(options):
        if len(combination) > 1 and works(combination):
            return minimal_subset(combination, works)
    return None


def full_combinations(options: Sequence[Option]) -> tuple[tuple[Option, ...], ...]:
    """All options at once; where several set one variable, each of those in turn."""
    by_names: dict[tuple[str, ...], list[Option]] = {}
    for option in options:
        by_names.setdefault(tuple(sorted(option.set)), []).append(option)
    found: dict[tuple[Option, ...], None] = {}
    for chosen in product(*by_names.values()):
        taken: set[str] = set()
        fitting = []
        for option in chosen:
            if not taken & set(option.set):
                taken |= set(option.set)
                fitting.append(option)
        found.setdefault(tuple(fitting))
        if len(found) == MAX_COMBINATIONS:
            break
    return tuple(found)


def minimal_subset(whole: tuple[Option, ...], works: Works[Option]) -> tuple[Option, ...]:
    """``whole``, which works, without everything it works without (delta debugging, Zeller and Hildebrandt 2002)."""
    pieces = 2
    while len(whole) > 1:
        for rest in _without_a_piece(whole, pieces):
            if rest and works(rest):
                whole, pieces = rest, max(pieces - 1, 2)
                break
        else:
            if pieces >= len(whole):
                return whole
            pieces = min(len(whole), pieces * 2)
    return whole


def _without_a_piece(whole: tuple[Option, ...], pieces: int) -> list[tuple[Option, ...]]:
    bounds = [len(whole) * number // pieces for number in range(pieces + 1)]
    return [whole[:start] + whole[stop:] for start, stop in pairwise(bounds)]
