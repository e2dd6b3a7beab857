"""What guards are given, looked at before any rank waits: a wrong argument is one clear sentence on the rank that gave
it."""

from __future__ import annotations

from unhang.errors import UsageError

LONGEST_S = 1e9


def checked_text(guard: str, argument: str, given: object) -> str:
    """``given`` without the space around it.

    Raises:
        UsageError: it is no text, or an empty one.
    """
    if isinstance(given, str) and given.strip():
        return given.strip()
    raise UsageError(f"{guard}({argument}=…) must be a text such as 'save', not {_shown(given)}")


def checked_seconds(guard: str, argument: str, given: object, *, longest_s: float = LONGEST_S) -> float:
    """``given`` as seconds.

    Raises:
        UsageError: it is no number above 0.
    """
    if isinstance(given, int | float) and not isinstance(given, bool) and 0 < given < longest_s:
        return float(given)
    raise UsageError(f"{guard}({argument}=…) must be a number of seconds above 0, not {_shown(given)}")


def _shown(given: object) -> str:
    shown = repr(given)
    return shown if len(shown) <= 80 else f"{shown[:79]}…"
