"""Phases and steps of a library's own objects: methods that are marked, or met at by all ranks where their work is a
collective; and phases that a library tells of by a beginning and an end."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from unhang.guards.phases import phase, step
from unhang.integrations.same_start import PATIENCE_S, wait_for_all_ranks


def mark_method(
    owner: Any,
    name: str,
    label: str,
    *,
    meets: Callable[[], bool] = lambda: False,
    at_most_s: float | None = None,
    patience_s: float = PATIENCE_S,
) -> None:
    """From now on ``owner.name(...)`` is the phase ``label``; ``meets``: asked at each call whether all ranks have to
    make it. Does nothing where the object has no such method or it is marked already."""

    def call(made: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if meets():
            wait_for_all_ranks(label, timeout_s=patience_s)
        with phase(label, at_most_s=at_most_s):
            return made(*args, **kwargs)

    wrap_method(owner, name, call)


def count_method(owner: Any, name: str, counts: Callable[[], bool] = lambda: True) -> None:
    """From now on each ``owner.name(...)`` counts as a step when it is done, if ``counts`` said so before."""

    def call(made: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        counted = counts()
        result = made(*args, **kwargs)
        if counted:
            step()
        return result

    wrap_method(owner, name, call)


def wrap_method(owner: Any, name: str, call: Callable[..., Any]) -> None:
    """From now on ``owner.name(...)`` is ``call(what it was, ...)``. Does nothing where the object has no such method
    or it was wrapped already."""
    made = getattr(owner, name, None)
    if made is None or hasattr(made, "unhang_marks"):
        return
    wrapped = functools.wraps(made)(functools.partial(call, made))
    wrapped.__dict__["unhang_marks"] = True
    setattr(owner, name, wrapped)


class ExclusivePhase:
    """One phase at a time. ``bounds``: how long each may take at most, in seconds, where the user said."""

    def __init__(self, bounds: dict[str, float | None]) -> None:
        self._bounds = bounds
        self._open: phase | None = None
        self.name = ""

    def begin(self, name: str) -> None:
        """``name`` begins, and what went on before ends; going on with the same changes nothing."""
        if name == self.name:
            return
        self.end()
        self._open, self.name = phase(name, at_most_s=self._bounds.get(name)), name
        self._open.__enter__()

    def end(self) -> None:
        """What goes on ends."""
        if self._open is None:
            return
        ended, self._open, self.name = self._open, None, ""
        ended.__exit__(None, None, None)
