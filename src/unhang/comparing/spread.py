"""Whether a difference is more than noise: medians and means of samples, and how far they may be off.

Samples are drawn again many times in short stretches (neighbours are alike: a slow minute is one slow thing), and a
difference counts when 99 of 100 draws agree on its sign and it is not tiny. Few samples say less than they seem to,
so their intervals are widened. What differs between two starts of the same job is not in the samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from unhang.evidence.rank_times import FloatColumn

LEAST = 3
"""Samples on each side below which nothing is told from noise."""
FEW = 12
"""Samples below which neighbours are not drawn together, and a difference may be missed."""
DRAWS = 600
SURE = 0.99
SMALLEST = 0.03
"""Of a step: a smaller difference of steps is none that anybody would act on."""
SMALLEST_PART = 0.01
"""The same of a part of the step."""


@dataclass(frozen=True, slots=True)
class Steps:
    """How long steps took on one side, seconds. ``low`` and ``high``: half of the samples lie between them."""

    count: int
    samples: int
    median_s: float
    mean_s: float
    low_s: float
    high_s: float
    longest_s: float
    first_step: int
    last_step: int


@dataclass(frozen=True, slots=True)
class Difference:
    """After minus before, seconds a step; ``low`` to ``high`` is where it lies in 99 of 100 draws."""

    before_s: float
    after_s: float
    low_s: float
    high_s: float
    told: bool
    """There are enough samples to tell it from noise."""
    few: bool = False
    """There are so few that even a large difference may not be told."""

    @property
    def grew_s(self) -> float:
        """Seconds a step."""
        return self.after_s - self.before_s

    def is_real(self, least_s: float) -> bool:
        """More than noise, and not smaller than ``least_s`` either way."""
        return self.told and abs(self.grew_s) >= least_s and (self.low_s > 0 or self.high_s < 0)

    def may_hide(self, much_s: float) -> bool:
        """What was seen differs by ``much_s`` or more, and there are too few samples to say whether that is noise."""
        return self.few and abs(self.grew_s) >= much_s


def weighted_median(values: FloatColumn, weights: FloatColumn) -> float:
    """The value up to which half of the weight lies; of two in the middle their mean."""
    order = np.argsort(values)
    passed = np.cumsum(weights[order])
    half = passed[-1] / 2
    at = int(np.searchsorted(passed, half))
    if passed[at] == half and at + 1 < len(values):
        return float((values[order][at] + values[order][at + 1]) / 2)
    return float(values[order][min(at, len(values) - 1)])


def draws(count: int, seed: int) -> FloatColumn:
    """How often each of ``count`` samples is taken, a row a draw: stretches of neighbours, around the end too."""
    generator = np.random.default_rng(seed)
    length = max(1, round(count ** (1 / 3))) if count >= FEW else 1
    stretches = -(-count // length)
    starts = generator.integers(0, count, (DRAWS, stretches))
    taken = (starts[:, :, None] + np.arange(length)).reshape(DRAWS, -1)[:, :count] % count
    rows = np.repeat(np.arange(DRAWS), count)
    return np.bincount(rows * count + taken.ravel(), minlength=DRAWS * count).reshape(DRAWS, count).astype(np.float64)


def means(columns: FloatColumn, weights: FloatColumn) -> tuple[FloatColumn, FloatColumn]:
    """Of every row of ``columns`` (one value a sample) its mean, and its mean in every draw (draws by rows)."""
    taken = draws(len(weights), seed=len(weights)) * weights
    total = taken.sum(axis=1, keepdims=True)
    return columns @ weights / weights.sum(), (taken @ columns.T) / total


def medians(values: FloatColumn, weights: FloatColumn) -> tuple[float, FloatColumn]:
    """The median, and the one of every draw."""
    taken = draws(len(weights), seed=len(weights))
    return weighted_median(values, weights), np.array([weighted_median(values, row * weights + 1e-12) for row in taken])


def difference(
    before: tuple[float, FloatColumn], after: tuple[float, FloatColumn], samples: tuple[int, int]
) -> Difference:
    """Of two figures with their draws, from so many samples."""
    fewest = min(samples)
    grew = after[0] - before[0]
    low, high = np.quantile(after[1] - before[1], ((1 - SURE) / 2, (1 + SURE) / 2))
    wider = 1 + 3 / max(fewest, 1)
    return Difference(
        float(before[0]),
        float(after[0]),
        float(min(grew, grew + (low - grew) * wider)),
        float(max(grew, grew + (high - grew) * wider)),
        fewest >= LEAST,
        fewest < FEW,
    )
