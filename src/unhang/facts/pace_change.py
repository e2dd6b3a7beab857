"""Since which step the steps of a job take longer, from a bounded history of their durations.

One slow step, a warm-up, an evaluation now and then, or noise must not count: the steps must have kept one pace for a
while, and another, longer one from some step on to the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median
from typing import NamedTuple

from unhang.knowledge.thresholds import threshold, whole_threshold

MIN_STEPS = whole_threshold("pace_change.min_steps")
"""Entries of the history on each side of the change."""
SLOWER = threshold("pace_change.slower")
NOISE_TIMES = threshold("pace_change.noise_times")
"""The change must be so many times the usual distance between neighbours."""
_WINDOW = whole_threshold("pace_change.window")
_FIRST_SHARE = threshold("pace_change.first_share")
"""Of the growth: a pace that climbs slowly changed where it had climbed so far."""
DIP_SHARE = threshold("pace_change.dip_share")
"""Of the slow entries on either side: so short a dip is none, where other programs want the machine too."""


@dataclass(frozen=True, slots=True)
class StepChange:
    """Steps took ``before_s`` up to ``step``, and ``since_s`` since then."""

    step: int
    before_s: float
    since_s: float

    @property
    def lost_share(self) -> float:
        """Which part of a step of now was not there before."""
        return 1 - self.before_s / self.since_s


def find_step_change(steps: Sequence[tuple[int, float]]) -> StepChange | None:
    """The change in a history of (step, seconds a step), oldest first; None when the pace is one pace, or recovers."""
    if len(steps) < 2 * MIN_STEPS:
        return None
    seconds = [duration for _, duration in steps]
    smooth = [median(seconds[i : i + _WINDOW]) for i in range(len(seconds) - _WINDOW + 1)]
    slowest, fastest = median(seconds[-MIN_STEPS:]), min(smooth)
    limit = fastest + _FIRST_SHARE * (slowest - fastest)
    stretches = [(is_slow, len(list(group))) for is_slow, group in groupby(pace >= limit for pace in smooth)]
    last = _last_slow(stretches)
    since = len(smooth) - sum(length for _, length in stretches[last:])
    if any(is_slow and length >= len(smooth) - since for is_slow, length in stretches[:last]):
        return None  # it was as slow for as long before, and recovered
    since = min(since + _WINDOW // 2, len(seconds) - 1)  # the middle of the window: half of it was slow already
    before, after = seconds[:since], seconds[since:]
    if len(before) < MIN_STEPS or len(after) < MIN_STEPS:
        return None
    before_s, since_s = median(before), median(after)
    if before_s <= 0 or since_s < SLOWER * before_s:
        return None
    jumps = median(abs(b - a) for a, b in pairwise(before))
    if since_s - before_s < NOISE_TIMES * jumps:
        return None
    return StepChange(steps[since - 1][0] + 1, before_s, since_s)


def _last_slow(stretches: Sequence[tuple[bool, int]]) -> int:
    """Where the slow stretch begins that lasts to the end, across dips that are short beside it."""
    last = len(stretches)
    if not stretches[-1][0]:
        return last
    last -= 1
    behind = stretches[last][1]
    while last >= 2 and stretches[last - 1][1] <= DIP_SHARE * min(stretches[last - 2][1], behind):
        behind += stretches[last - 1][1] + stretches[last - 2][1]
        last -= 2
    return last


@dataclass(frozen=True, slots=True)
class AllWait:
    """No rank holds the others up: all wait in at least the share ``waits`` (0 to 1) of ``samples`` samples."""

    waits: float
    samples: int
    change: StepChange


class LeastWaiting(NamedTuple):
    """In ``looks`` looks ``rank`` waited ``waited`` times, every other rank at least ``others`` times."""

    rank: int
    waited: int
    others: int
    looks: int


class UsedProcessor(NamedTuple):
    """The thread of ``rank`` used a processor, or waited for one, in the share ``own`` of the time; that of every other
    rank in ``others`` at most."""

    rank: int
    own: float
    others: float


class OwnPlace(NamedTuple):
    """The ``share`` of the looks at a rank in which it was in ``function``, or, where that is empty, at the line of its
    activity: no other rank was there in any look."""

    share: float
    function: str
