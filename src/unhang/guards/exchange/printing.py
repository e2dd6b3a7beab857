"""What guards say: ranks and errors in words, and the one place where they print."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress

from unhang.errors import GuardError
from unhang.report.printable import printable
from unhang.secrets import without_secrets
from unhang.sentences import rank_ranges


def print_message(text: str) -> None:
    """``text`` on standard error, without what acts on a terminal and without secrets: it holds names and values of the
    user's program and of other ranks. A closed stream stops nobody."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"[unhang] {printable(without_secrets(text))}\n")
        sys.stderr.flush()


def exception_text(error: BaseException, longest: int = 2000) -> str:
    """Type and words of ``error``, for the other ranks. Where its text cannot be made, its type alone."""
    said = ""
    with suppress(Exception):  # a __str__ of the program's own
        said = error.words if isinstance(error, GuardError) else str(error)
    return f"{type(error).__name__}: {said}"[:longest] if said else type(error).__name__


def ranks_text(ranks: Iterable[int]) -> str:
    """``rank 3``, ``ranks 0-3, 7``."""
    named = tuple(ranks)
    return f"rank {named[0]}" if len(named) == 1 else f"ranks {rank_ranges(named)}"
