"""What a case of the lab is and what its bundle must be diagnosed as; ``catalog.toml`` holds the cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import msgspec
import tomli

from unhang.errors import UsageError
from unhang.findings import Cause

CASES_FOLDER = Path(__file__).with_name("cases")
Guilty = Literal["none", "first", "second", "last", "all but last", "all", "odd"]
GUILTY_RANKS: Mapping[Guilty, Callable[[int], tuple[int, ...]]] = {
    "none": lambda _world: (),
    "first": lambda _world: (0,),
    "second": lambda _world: (1,),
    "last": lambda world: (world - 1,),
    "all but last": lambda world: tuple(range(world - 1)),
    "all": lambda world: tuple(range(world)),
    "odd": lambda world: tuple(range(1, world, 2)),
}
"""Of a world size: the ranks that are to blame."""


class Injection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault from outside. ``kind`` is a signal's name (``KILL``) or ``freeze-transport``; it comes when every rank
    has enqueued ``after`` collectives. ``rank`` None means every rank."""

    kind: str
    after: int
    rank: int | None = None


class ExpectedVerdict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The verdict a bundle of this case must get.

    Without ``cause`` it is a healthy job. ``where`` and ``waiter`` are pieces of code, each on a line that is right;
    ``where_functions`` allows any line of these functions (for work that moves). Empty means: there is no such line, or
    the evidence cannot tell. ``also_ranks`` is another answer that is right (one side of a cycle). ``watched``: what is
    right instead of ``status`` while the job is watched and lives on (empty: the same).
    """

    cause: Cause | None = None
    ranks: Guilty
    status: tuple[str, ...] = ("hang",)
    watched: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    where_functions: tuple[str, ...] = ()
    waiter: tuple[str, ...] = ()
    also_ranks: Guilty | None = None
    fewest_batches: bool = False
    """The guilty ranks are those whose log announces the fewest batches: chance decides in every run."""


class LabCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One job with one fault. ``fault`` is the piece of code that is the cause, empty when it comes from outside."""

    name: str
    what: str
    script: str
    expected: ExpectedVerdict
    fault: str = ""
    ranks: int = 3
    at_least: int = 2
    moment: Literal["stall", "moving", "end"] = "stall"
    timeout_s: float = 120.0
    """Of its collectives."""
    injection: Injection | None = None
    backends: tuple[str, ...] = ("gloo", "nccl")

    @property
    def path(self) -> Path:
        """The training script."""
        return CASES_FOLDER / self.script


CASES = msgspec.convert(
    tomli.loads(Path(__file__).with_name("catalog.toml").read_text(encoding="utf-8"))["case"], tuple[LabCase, ...]
)


def find_case(name: str) -> LabCase:
    """The case of that name.

    Raises:
        UsageError: there is none; the message names near ones.
    """
    for case in CASES:
        if case.name == name.replace("_", "-").lower():
            return case
    raise UsageError(f"There is no lab case {name!r}.", next_step="unhang lab list")
