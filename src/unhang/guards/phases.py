"""Mark long legitimate work, and count steps, for whoever watches the job (``unhang run``).

Standard library only; without a watcher a mark costs a microsecond and does nothing.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from threading import get_ident
from types import TracebackType

from unhang.guards.arguments import checked_seconds, checked_text
from unhang.inprocess import annotations as marked

_PHASES = {
    "init": ("init", "initialisation", "initialization", "setup"),
    "data": ("data", "tokenisation", "tokenization", "preprocessing", "dataset", "loading data"),
    "eval": ("eval", "evaluation", "evaluate", "validation", "validate", "test", "generation"),
    "save": ("save", "saving", "checkpoint", "checkpointing", "upload"),
    "log": ("log", "logging"),
    "compute": ("compute", "train", "training"),
    "communication": ("communication",),
    "shutdown": ("shutdown",),
}
"""Phase of the report, and the names that mean it; any other name is a label only."""
_PHASE_OF = {name: phase for phase, names in _PHASES.items() for name in names}


class phase(ContextDecorator):  # noqa: N801 - used like a function: with unhang.phase("evaluation"):
    """Mark what happens inside as work that may take long; a ``with`` block or a decorator.

    Ranks that wait for this one then get a quiet line instead of a verdict: until ``at_most_s`` is over, until the
    limit of their own collective comes near, or where this rank is dead or stopped. Marks nest; the innermost bound
    holds. The end of the run tells the time by name.

    Args:
        name: what it is: ``evaluation``, ``save``, ``tokenisation``, or words of your own (48 bytes are shown).
        at_most_s: how long it takes at most when all is well, in seconds. Without it nothing tells when it has become
            too long, so a rank that stands still inside is still reported.

    Raises:
        UsageError: the name is empty or ``at_most_s`` is no positive number.
    """

    def __init__(self, name: str, *, at_most_s: float | None = None) -> None:
        self._name = checked_text("phase", "name", name)
        self._at_most_s = None if at_most_s is None else checked_seconds("phase", "at_most_s", at_most_s)
        self._phase = _PHASE_OF.get(self._name.lower(), "other")
        self._open: dict[int, list[marked.OpenPhase]] = {}

    def __enter__(self) -> None:
        mark = marked.enter(self._name, self._phase, self._at_most_s)
        self._open.setdefault(get_ident(), []).append(mark)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        mine = self._open[get_ident()]
        marked.leave(mine.pop())
        if not mine:
            del self._open[get_ident()]


def step() -> None:
    """Count one step of the training loop; call it once a step, on every rank. A tenth of a microsecond.

    ``unhang run`` then tells steps and step times as you count them, and no longer guesses them from the collectives.
    """
    marked.step()
