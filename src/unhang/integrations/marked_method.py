"""A method of one object, marked as a phase, and met at by all ranks where its work is a collective."""

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
    made = getattr(owner, name, None)
    if made is None or hasattr(made, "unhang_marks"):
        return

    @functools.wraps(made)
    def call(*args: Any, **kwargs: Any) -> Any:
        if meets():
            wait_for_all_ranks(label, timeout_s=patience_s)
        with phase(label, at_most_s=at_most_s):
            return made(*args, **kwargs)

    call.__dict__["unhang_marks"] = label
    setattr(owner, name, call)


def count_method(owner: Any, name: str, counts: Callable[[], bool] = lambda: True) -> None:
    """From now on each ``owner.name(...)`` counts as a step when it is done, if ``counts`` said so before."""
    made = getattr(owner, name, None)
    if made is None or hasattr(made, "unhang_marks"):
        return

    @functools.wraps(made)
    def call(*args: Any, **kwargs: Any) -> Any:
        counted = counts()
        result = made(*args, **kwargs)
        if counted:
            step()
        return result

    call.__dict__["unhang_marks"] = "step"
    setattr(owner, name, call)
