"""How many batches the ranks take together: the arithmetic of ``even_batches``, without any rank in it.

Where lengths are unknown, each rank reads a window of batches ahead and says how many it found; all then take as many
from the window as was decided. A window that is not full is the last one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

WhenUneven = Literal["stop", "error", "pad"]
MODES: tuple[WhenUneven, ...] = ("stop", "error", "pad")
LARGEST_WINDOW = 16
_PART_OF_A_STEP = 0.002
"""An agreement may cost this part of a step, on average over the steps of its window."""


@dataclass(frozen=True, slots=True)
class WindowDecision:
    """``take`` batches from this window; ``last``: no window follows; ``uneven``: some rank had fewer than another."""

    take: int
    last: bool
    uneven: bool


def decide_window(fewest: int, most: int, window: int, when_uneven: WhenUneven) -> WindowDecision:
    """From the fewest and the most batches that any rank found for a window of size ``window``."""
    uneven = fewest < most
    if when_uneven == "pad":
        return WindowDecision(most, most < window, uneven)
    return WindowDecision(fewest, fewest < window, uneven)


def total_batches(lengths: list[int], when_uneven: WhenUneven) -> int:
    """Batches every rank takes where all lengths are known."""
    return max(lengths) if when_uneven == "pad" else min(lengths)


def window_for(cost_s: float, step_s: float) -> int:
    """The smallest window at which agreements cost at most 0.2 % of the steps."""
    if cost_s >= LARGEST_WINDOW * _PART_OF_A_STEP * step_s:
        return LARGEST_WINDOW if step_s > 0 else 1
    return max(1, math.ceil(cost_s / (_PART_OF_A_STEP * step_s)))


def batches_due(window: int, place: int, taken: int) -> int:
    """How much of the next window is read before batch ``place`` of the ``taken`` batches of this one."""
    return window if place + 1 >= taken else window * (place + 1) // taken
