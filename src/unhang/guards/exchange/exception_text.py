"""What an exception says, for the other ranks."""

from __future__ import annotations

from contextlib import suppress

from unhang.errors import GuardError


def exception_text(error: BaseException, longest: int = 2000) -> str:
    """Type and words of ``error``. Where its text cannot be made, its type alone."""
    said = ""
    with suppress(Exception):  # a __str__ of the program's own
        said = error.words if isinstance(error, GuardError) else str(error)
    return f"{type(error).__name__}: {said}"[:longest] if said else type(error).__name__
