"""Each fact is built apart: one that fails is named, caps certainty, and the others answer.

A fact that could not be built is :class:`MissingFact`, not empty: whoever asks it anything could not look either, so
that no detector takes it for *not found*, and nobody for health.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, cast

from unhang.errors import CouldNotLook
from unhang.findings import Certainty, NotChecked
from unhang.sentences import Text

Made = TypeVar("Made")


class MissingFact:
    """Stands where a fact could not be built. Raises :class:`CouldNotLook` whatever is asked of it."""

    __slots__ = ("_what",)

    def __init__(self, what: Text) -> None:
        self._what = what

    def _refuse(self, *_: Any) -> NoReturn:
        raise CouldNotLook(f"{self._what} could not be found out")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # Python itself asks, to copy or to print it
            raise AttributeError(name)
        self._refuse()

    __bool__ = __len__ = __iter__ = __getitem__ = __contains__ = __call__ = _refuse


class IsolatedSteps:
    """Runs steps one after the other and keeps what failed."""

    def __init__(self) -> None:
        self.failed: list[NotChecked] = []

    def made(self, what: Text, make: Callable[[], Made], *otherwise: Made) -> Made:
        """The value of ``make()``. Where it raises, notes the failure and returns ``otherwise``, else
        :class:`MissingFact`."""
        try:
            return make()
        except MemoryError:
            raise  # not this step's fault: the whole is too large
        except Exception as error:  # noqa: BLE001 - the boundary of one fact
            self.failed.append(NotChecked.after(error, what, Certainty.POSSIBLE))
            return otherwise[0] if otherwise else cast("Made", MissingFact(what))

    def revised(self, what: Text, revise: Callable[..., Made], value: Made, *given: Any) -> Made:
        """``revise(value, *given)``; where it raises, notes the failure and returns ``value``."""
        return self.made(what, lambda: revise(value, *given), value)
