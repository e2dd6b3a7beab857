"""Pipes of processes that are forked, not executed anew: off the standard streams, closed where nobody needs them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence

_FIRST_FREE = 10
"""Numbers below may be standard streams that somebody closed."""


def new_pipe() -> tuple[int, int]:
    """Its reading and its writing end.

    Raises:
        OSError: there is no room for one.
    """
    ends = os.pipe2(os.O_CLOEXEC)
    if min(ends) >= _FIRST_FREE:
        return ends
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


def close_all_except(kept: Sequence[int]) -> None:
    """Close all but the standard streams and ``kept``: another stream's pipe must end without us."""
    at = 3
    for number in (*sorted(kept), 1 << 16):
        os.closerange(at, number)
        at = number + 1
