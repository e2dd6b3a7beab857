"""unhang: why did the ranks stop moving together, and what to change.

Nothing is imported here: this file runs in every child of a training job. The guards (``unhang.together`` and the
others) are loaded when they are first named.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for true; typing itself is not loaded
if TYPE_CHECKING:
    from typing import Any

    from unhang import errors as errors
    from unhang.guards.background_writer import BackgroundWriter as BackgroundWriter
    from unhang.guards.even_batches import even_batches as even_batches
    from unhang.guards.limits import limits as limits
    from unhang.guards.phases import phase as phase
    from unhang.guards.phases import step as step
    from unhang.guards.rank_zero_first import rank_zero_first as rank_zero_first
    from unhang.guards.sameness import same_on_all_ranks as same_on_all_ranks
    from unhang.guards.saving import save_together as save_together
    from unhang.guards.seeding import random_states as random_states
    from unhang.guards.seeding import seed_everything as seed_everything
    from unhang.guards.seeding import seed_worker as seed_worker
    from unhang.guards.together import together as together

__version__ = "0.2.0"

_GUARDS = {
    "BackgroundWriter": "background_writer",
    "even_batches": "even_batches",
    "limits": "limits",
    "phase": "phases",
    "random_states": "seeding",
    "rank_zero_first": "rank_zero_first",
    "same_on_all_ranks": "sameness",
    "save_together": "saving",
    "seed_everything": "seeding",
    "seed_worker": "seeding",
    "step": "phases",
    "together": "together",
}
"""Name and the file in ``guards`` that has it."""


def __getattr__(name: str) -> Any:
    if name not in (*_GUARDS, "errors"):
        raise AttributeError(f"module 'unhang' has no attribute {name!r}")
    from importlib import import_module

    if name == "errors":  # for ``except unhang.errors.RanksDiffer`` in a file that has called no guard yet
        return import_module("unhang.errors")
    found = getattr(import_module(f"unhang.guards.{_GUARDS[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_GUARDS, "errors"})
