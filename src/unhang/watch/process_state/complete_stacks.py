"""py-spy without stopping the process may see a torn stack, or none: it is tried again, a few times."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TypeVar

from unhang.evidence.items import StackDump
from unhang.evidence.stacks.torn_stacks import is_torn, main_thread_depth

TRIES = 6
"""Of samples of a rank that generates text one in four is torn or fails (py-spy 0.4); each takes some 12 ms."""

Attempt = TypeVar("Attempt")


def retry_until_complete(
    sample: Callable[[float], Attempt], seen_of: Callable[[Attempt], float], limit_s: float
) -> Attempt:
    """The first sample that is whole, else the one that saw most.

    Args:
        sample: one try, in so many seconds at most.
        seen_of: :func:`completeness` of it; endless ends the tries.
        limit_s: of all tries together.
    """
    deadline = time.monotonic() + limit_s
    best = sample(limit_s)
    most = seen_of(best)
    for _ in range(TRIES - 1):
        left_s = deadline - time.monotonic()
        if most == math.inf or left_s <= 0:
            break
        again = sample(left_s)
        if (seen := seen_of(again)) > most:
            best, most = again, seen
    return best


def completeness(dump: StackDump | None, *, final: bool = False) -> float:
    """Frames of the main thread; endless when they are whole; below zero without a sample.

    ``final``: another try would end the same way.
    """
    if dump is None:
        return math.inf if final else -1
    return main_thread_depth(dump) if is_torn(dump) else math.inf
