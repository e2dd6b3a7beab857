"""What a case of the lab is, and what its bundle must be diagnosed as."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from unhang.findings import Cause
from unhang_lab.recorder import Injection

CASES_FOLDER = Path(__file__).with_name("cases")
Ranks = Callable[[int], tuple[int, ...]]
"""Of a world size: the ranks that are to blame."""


@dataclass(frozen=True, slots=True)
class ExpectedVerdict:
    """The verdict a bundle of this case must get.

    ``cause`` None means a healthy job. ``where`` and ``waiter`` are pieces of code, each on a line that is right;
    ``where_functions`` allows any line of these functions (for work that moves). Empty means: there is no such line, or
    the evidence cannot tell. ``also_ranks`` is another answer that is right (one side of a cycle). ``watched``: what is
    right instead of ``status`` while the job is watched and lives on (empty: the same).
    """

    cause: Cause | None
    ranks: Ranks
    status: tuple[str, ...] = ("hang",)
    watched: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    where_functions: tuple[str, ...] = ()
    waiter: tuple[str, ...] = ()
    also_ranks: Ranks | None = None
    fewest_batches: bool = False
    """The guilty ranks are those whose log announces the fewest batches: chance decides in every run."""


@dataclass(frozen=True, slots=True)
class LabCase:
    """One job with one fault. ``fault`` is the piece of code that is the cause, empty when it comes from outside."""

    name: str
    what: str
    script: str
    expected: ExpectedVerdict
    fault: str = ""
    ranks: int = 3
    at_least: int = 2
    moment: Literal["stall", "moving", "end"] = "stall"
    after: int = 3
    timeout_s: float = 120.0
    injection: Injection | None = None
    backends: tuple[str, ...] = field(default=("gloo", "nccl"))

    @property
    def path(self) -> Path:
        """The training script."""
        return CASES_FOLDER / self.script


def no_rank(_world: int) -> tuple[int, ...]:
    """Nobody is to blame."""
    return ()


def first_rank(_world: int) -> tuple[int, ...]:
    """Rank 0."""
    return (0,)


def second_rank(_world: int) -> tuple[int, ...]:
    """Rank 1."""
    return (1,)


def last_rank(world: int) -> tuple[int, ...]:
    """The last rank."""
    return (world - 1,)


def all_but_last(world: int) -> tuple[int, ...]:
    """All ranks but the last."""
    return tuple(range(world - 1))


def all_ranks(world: int) -> tuple[int, ...]:
    """All ranks."""
    return tuple(range(world))


def odd_ranks(world: int) -> tuple[int, ...]:
    """Ranks with an odd number."""
    return tuple(range(1, world, 2))
