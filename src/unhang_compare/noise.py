"""Whether a difference is more than noise: medians and means of samples, and how far they may be off.

Samples are drawn again many times in short stretches (neighbours are alike: a slow minute is one slow thing), and a
difference counts when 99 of 100 draws agree on its sign and it is not tiny. Few samples say less than they seem to,
so their intervals are widened. Where every step of one side is longer than every step of the other, it is counted how
likely that is by chance. What differs between two starts of the same job is not in the samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from unhang_compare.rank_times import FloatColumn, RankTimes

MIN_SAMPLES = 3
"""Samples on each side below which nothing is told from noise."""
FEW_SAMPLES = 12
"""Samples below which neighbours are not drawn together, and a difference may be missed."""
MAX_STEPS_COUNTED = 1000
"""Steps on the longer side beyond which more of them change nothing."""
BOOTSTRAP_DRAWS = 600
CONFIDENCE = 0.99
MIN_STEP_SHARE = 0.03
"""Of a step: a smaller difference of steps is none that anybody would act on."""
MIN_PART_SHARE = 0.01
"""The same of a part of the step."""


@dataclass(frozen=True, slots=True)
class StepRange:
    """The shortest and the longest of ``count`` steps, as far as samples of several steps tell."""

    count: int
    shortest_s: float
    longest_s: float


@dataclass(frozen=True, slots=True)
class StepTimes:
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
class TimeDifference:
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

    def is_real(self, min_s: float) -> bool:
        """More than noise, and not smaller than ``min_s`` either way."""
        return self.told and abs(self.grew_s) >= min_s and (self.low_s > 0 or self.high_s < 0)

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


def bootstrap_weights(count: int, seed: int) -> FloatColumn:
    """How often each of ``count`` samples is taken, a row a draw: stretches of neighbours, around the end too."""
    generator = np.random.default_rng(seed)
    length = max(1, round(count ** (1 / 3))) if count >= FEW_SAMPLES else 1
    stretches = -(-count // length)
    starts = generator.integers(0, count, (BOOTSTRAP_DRAWS, stretches))
    taken = (starts[:, :, None] + np.arange(length)).reshape(BOOTSTRAP_DRAWS, -1)[:, :count] % count
    rows = np.repeat(np.arange(BOOTSTRAP_DRAWS), count)
    return (
        np.bincount(rows * count + taken.ravel(), minlength=BOOTSTRAP_DRAWS * count)
        .reshape(BOOTSTRAP_DRAWS, count)
        .astype(np.float64)
    )


def bootstrap_means(columns: FloatColumn, weights: FloatColumn) -> tuple[FloatColumn, FloatColumn]:
    """Of every row of ``columns`` (one value a sample) its mean, and its mean in every draw (draws by rows)."""
    taken = bootstrap_weights(len(weights), seed=len(weights)) * weights
    total = taken.sum(axis=1, keepdims=True)
    return columns @ weights / weights.sum(), (taken @ columns.T) / total


def bootstrap_medians(values: FloatColumn, weights: FloatColumn) -> tuple[float, FloatColumn]:
    """The median, and the one of every draw."""
    taken = bootstrap_weights(len(weights), seed=len(weights))
    return weighted_median(values, weights), np.array([weighted_median(values, row * weights + 1e-12) for row in taken])


def step_range(times: RankTimes, ranks: int) -> StepRange:
    """Of the steps of ``ranks`` ranks together, which step alike: counted once."""
    if times.longest_s is None:
        return StepRange(len(times.step_s) // ranks, float(times.step_s.min()), float(times.step_s.max()))
    others = (times.steps - 1) * times.longest_s  # no step of a sample is longer: so much all but one took at most
    shortest = np.maximum(0.0, times.steps * times.step_s - others)
    return StepRange(int(times.steps.sum()) // ranks, float(shortest.min()), float(times.longest_s.max()))


def gap_s(before: StepRange, after: StepRange) -> float:
    """Seconds between the two where every step of one is longer than every step of the other, below 0 where those
    before are the longer ones; 0 where they overlap."""
    return max(0.0, after.shortest_s - before.longest_s) or min(0.0, after.longest_s - before.shortest_s)


def rarely_apart(one: int, other: int) -> bool:
    """Of all ways to deal so many steps to two sides, the two that part them are at most one of a hundred."""
    few, many = sorted((one, other))
    return few >= MIN_SAMPLES and comb(
        min(few, FEW_SAMPLES) + min(many, MAX_STEPS_COUNTED), min(few, FEW_SAMPLES)
    ) >= 2 / (1 - CONFIDENCE)


ENOUGH_SAMPLES = next(count for count in range(MIN_SAMPLES, FEW_SAMPLES) if rarely_apart(count, count))
"""So many steps on each side tell a difference where none of one side is as long as any of the other."""


def time_difference(
    before: tuple[float, FloatColumn],
    after: tuple[float, FloatColumn],
    samples: tuple[int, int],
    apart_by_s: float = 0.0,
) -> TimeDifference:
    """Of two figures with their draws, from so many samples, of which all lie ``apart_by_s`` apart (0: they do not)."""
    fewest = min(samples)
    grew = after[0] - before[0]
    low, high = np.quantile(after[1] - before[1], ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    wider = 1 + 3 / max(fewest, 1)
    low_s, high_s = min(grew, grew + (low - grew) * wider), max(grew, grew + (high - grew) * wider)
    if apart_by_s:
        low_s, high_s = (max(low_s, apart_by_s), high_s) if apart_by_s > 0 else (low_s, min(high_s, apart_by_s))
    return TimeDifference(
        float(before[0]),
        float(after[0]),
        float(low_s),
        float(high_s),
        told=fewest >= MIN_SAMPLES or apart_by_s != 0,
        few=fewest < FEW_SAMPLES and apart_by_s == 0,
    )
