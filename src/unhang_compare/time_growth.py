"""What grew from one side to the other: steps first, then the parts of a step, by the place that asks for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unhang.findings import Phase
from unhang_compare import noise
from unhang_compare.comparison import RankPair, StepPart
from unhang_compare.noise import StepTimes, TimeDifference
from unhang_compare.rank_times import MAIN, OWN, THREAD, WAITING, Activity, RankTimes

if TYPE_CHECKING:
    from unhang_compare.rank_times import FloatColumn

MAX_PARTS = 300
"""Parts of a step that are judged: those that differ most."""
BACKWARD = "run_backward"
"""torch's autograd engine, as a trace names it."""
DOMINANT_SHARE = 0.8


@dataclass(slots=True)
class _Found:
    activity: Activity
    inside: str
    by_rank: dict[int | None, TimeDifference]


def step_times(times: RankTimes) -> StepTimes:
    """How long the steps of one rank, or of several together, took."""
    weights, seconds = times.steps, times.step_s
    order = np.argsort(seconds)
    passed = np.cumsum(weights[order]) / weights.sum()
    quarter, three = (seconds[order][min(int(np.searchsorted(passed, q)), len(order) - 1)] for q in (0.25, 0.75))
    longest = seconds if times.longest_s is None else np.maximum(seconds, times.longest_s)
    return StepTimes(
        count=int(weights.sum()),
        samples=len(seconds),
        median_s=noise.weighted_median(seconds, weights),
        mean_s=float(seconds @ weights / weights.sum()),
        low_s=float(quarter),
        high_s=float(three),
        longest_s=float(longest.max()),
        first_step=max(0, int(times.last_step[0] - weights[0] + 1)),
        last_step=int(times.last_step.max()),
    )


def pool_ranks(times: Sequence[RankTimes]) -> RankTimes:
    """Samples of several ranks, or of several files of one rank, as if they were one's."""
    if len(times) == 1:
        return times[0]
    sizes = [len(one.step_s) for one in times]
    ends = np.cumsum(sizes).tolist()
    spent: dict[Activity, FloatColumn] = {}
    for one, end, size in zip(times, ends, sizes, strict=True):
        for activity, seconds in one.spent.items():
            spent.setdefault(activity, np.zeros(ends[-1]))[end - size : end] = seconds
    longest = [one.longest_s if one.longest_s is not None else one.step_s for one in times]
    first = times[0]
    ranks = {one.rank for one in times}
    return replace(
        first,
        rank=first.rank if len(ranks) == 1 else None,
        last_step=np.concatenate([one.last_step for one in times]),
        steps=np.concatenate([one.steps for one in times]),
        step_s=np.concatenate([one.step_s for one in times]),
        spent=spent,
        longest_s=np.concatenate(longest),
        with_stacks=all(one.with_stacks for one in times),
        unread=tuple(unread for one in times for unread in one.unread),
    )


def compare_rank(rank: int | None, before: RankTimes, after: RankTimes, ranks: tuple[int, int] = (1, 1)) -> RankPair:
    """How long the steps took; of so many ``ranks`` together on each side."""
    samples = (len(before.step_s), len(after.step_s))
    ranges = noise.step_range(before, ranks[0]), noise.step_range(after, ranks[1])
    gap_s = noise.gap_s(*ranges)
    sure_s = gap_s if noise.rarely_apart(ranges[0].count, ranges[1].count) else 0.0
    mean = noise.time_difference(_mean(before), _mean(after), samples, sure_s)
    median = noise.time_difference(
        noise.bootstrap_medians(before.step_s, before.steps),
        noise.bootstrap_medians(after.step_s, after.steps),
        samples,
        sure_s,
    )
    return RankPair(rank, step_times(before), step_times(after), median, mean, gap_s != 0)


def _mean(times: RankTimes) -> tuple[float, FloatColumn]:
    means, drawn = noise.bootstrap_means(times.step_s[None, :], times.steps)
    return float(means[0]), drawn[:, 0]


def compare_parts(pairs: Mapping[int | None, tuple[RankTimes, RankTimes]]) -> tuple[StepPart, ...]:
    """Parts of the step that are not as they were, on whichever ranks, the largest change first."""
    found: dict[Activity, _Found] = {}
    for rank, (before, after) in pairs.items():
        min_s = noise.MIN_PART_SHARE * max(step_times(before).median_s, step_times(after).median_s)
        changed = [(activity, inside, one) for activity, inside, one in _parts(before, after) if one.is_real(min_s)]
        waited_s = sum(one.grew_s for activity, _, one in changed if (activity.on, activity.kind) == (THREAD, WAITING))
        for activity, inside, one in changed:
            seen = _as_it_was(activity, inside, one, waited_s)
            found.setdefault(seen, _Found(seen, inside, {})).by_rank[rank] = one
    parts = [part for one in found.values() for part in _parts_of(one)]
    return tuple(sorted(parts, key=lambda part: -abs(part.difference.grew_s)))


def _as_it_was(activity: Activity, inside: str, one: TimeDifference, waited_s: float) -> Activity:
    """DDP waits for its buckets inside of the autograd engine, where a trace shows no wait on the main thread: this
    rank's collectives on Gloo's threads (``waited_s``) changed by as much."""
    if activity.on != MAIN or activity.kind != OWN or BACKWARD not in f"{activity.called} {inside}":
        return activity
    if waited_s * one.grew_s <= 0 or abs(waited_s) < DOMINANT_SHARE * abs(one.grew_s):
        return activity
    return replace(activity, kind=WAITING, phase=Phase.COMMUNICATION)


def _parts_of(found: _Found) -> list[StepPart]:
    """One part where it grew, and one where it shrank."""
    parts = []
    for sign in (1, -1):
        ranks = {rank: one for rank, one in found.by_rank.items() if sign * one.grew_s > 0}
        if ranks:
            most = max(ranks.values(), key=lambda one: abs(one.grew_s))
            told = tuple(sorted(rank for rank in ranks if rank is not None))
            a = found.activity
            parts.append(StepPart(a.where, a.called, found.inside, a.phase, a.kind, a.on, told, most))
    return parts


def _parts(before: RankTimes, after: RankTimes) -> list[tuple[Activity, str, TimeDifference]]:
    sides = [_by_place(times) for times in (before, after)]
    keys = list({**sides[0], **sides[1]})
    if not keys:
        return []
    columns = [
        np.array([side.get(key, np.zeros(len(times.step_s))) for key in keys])
        for side, times in zip(sides, (before, after), strict=True)
    ]
    change = columns[1] @ after.steps / after.steps.sum() - columns[0] @ before.steps / before.steps.sum()
    chosen = np.argsort(-np.abs(change))[:MAX_PARTS]
    drawn = [
        noise.bootstrap_means(column[chosen], times.steps)
        for column, times in zip(columns, (before, after), strict=True)
    ]
    samples = (len(before.step_s), len(after.step_s))
    inside = _inside(before, after)
    return [
        (
            keys[at],
            inside.get(keys[at], ""),
            noise.time_difference(
                (float(drawn[0][0][number]), drawn[0][1][:, number]),
                (float(drawn[1][0][number]), drawn[1][1][:, number]),
                samples,
            ),
        )
        for number, at in enumerate(chosen.tolist())
    ]


def _place(activity: Activity) -> Activity:
    """Without what happens inside of the call. Lines of one function stay apart where lines are known."""
    return Activity(activity.where, activity.called, "", activity.phase, activity.kind, activity.on)


def _by_place(times: RankTimes) -> dict[Activity, FloatColumn]:
    found: dict[Activity, FloatColumn] = {}
    for activity, seconds in times.spent.items():
        place = _place(activity)
        known = found.get(place)
        found[place] = seconds if known is None else known + seconds
    return found


def _inside(before: RankTimes, after: RankTimes) -> dict[Activity, str]:
    """Of every place the operation that changed most."""
    change: dict[Activity, float] = defaultdict(float)
    for times, sign in ((before, -1.0), (after, 1.0)):
        for activity, seconds in times.spent.items():
            change[activity] += sign * float(seconds @ times.steps) / float(times.steps.sum())
    most: dict[Activity, tuple[float, str]] = {}
    for activity, moved in change.items():
        place = _place(activity)
        if activity.operation and abs(moved) > most.get(place, (0.0, ""))[0]:
            most[place] = (abs(moved), activity.operation)
    return {place: operation for place, (_, operation) in most.items() if operation != place.called}
