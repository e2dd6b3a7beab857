"""Whether, in a job that moves, it is always the same rank the others wait for.

A straggler shows in repeated samples: it is busy while all others stand in a collective or behind it. Or it comes last
to nearly every collective, by the times in the recorders' dumps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import comb
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from unhang.evidence.items import Frame, SourceFile, frames_of
from unhang.facts.alignment.nonfatal_mismatch import entries_of_latest_group
from unhang.facts.model import Activity, GroupFacts, RankFacts, Straggler
from unhang.facts.pace.slow_rank_over_time import (
    EXPLAINS,
    HALF,
    LESS,
    SlowRankPace,
    activity_in,
    merged_pace,
    slow_rank_pace,
)
from unhang.facts.pace.slow_rank_over_time import MIN_LOOKS as MIN_SAMPLES
from unhang.facts.pace_change import LeastWaiting, OwnPlace, UsedProcessor
from unhang.facts.stacks.activity import activity_of
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.facts.waiting.progress_from_stacks import in_collective
from unhang.knowledge.thresholds import threshold, whole_threshold

if TYPE_CHECKING:
    from unhang.wire.documents.pace import Pace

MIN_POSITIONS = whole_threshold("straggler.min_positions")
ALWAYS = threshold("straggler.always")
"""Share of the stretches of a recording in which the same rank must hold the others up most."""
SHARE_OF_STEP = threshold("straggler.share_of_step")
"""Of the time of all of them, for which the others must wait for it."""


class LatestArriver(NamedTuple):
    """``rank`` held the others up, for the share ``cost`` (0 to 1) of the time of ``positions`` collectives."""

    rank: int
    positions: int
    cost: float


def latest_arriver(groups: Mapping[str, GroupFacts], ranks: Mapping[int, RankFacts]) -> LatestArriver | None:
    """The rank that the others wait for in practically every stretch of the recording, as the times of entry tell."""
    if len({facts.host for facts in ranks.values() if facts.host}) > 1:
        return None
    return next(filter(None, map(_latest_in, _whole_groups(groups))), None)


def _whole_groups(groups: Mapping[str, GroupFacts]) -> list[GroupFacts]:
    """Those of which every member's calls are known, the largest first."""
    whole = [group for _, group in sorted(groups.items()) if 2 <= len(group.entries) == len(group.members)]
    return sorted(whole, key=lambda group: -len(group.members))


def _latest_in(group: GroupFacts) -> LatestArriver | None:
    import numpy as np

    ranks = sorted(group.entries)
    entries = [entries_of_latest_group(group.entries[rank]) for rank in ranks]
    shared = set.intersection(*(set(known.position.tolist()) for known in entries))
    positions = np.array(sorted(shared), dtype=np.int64)
    if len(positions) < MIN_POSITIONS:
        return None
    created = np.stack([known.created_ns[np.searchsorted(known.position, positions)] for known in entries])
    if not created.all():
        return None
    arrived, late_rank = np.sort(created, axis=0), created.argmax(axis=0)
    first, last, late = arrived[0], arrived[-1], arrived[-1] - arrived[-2]
    by_rank = np.bincount(late_rank, weights=late, minlength=len(ranks))
    latest, second = int(by_rank.argmax()), float(np.sort(by_rank)[-2])
    others, late = np.where(late_rank == latest, 0, late)[1:], np.where(late_rank == latest, late, 0)
    # Who entered this call before all were in the one before has not waited there: it is one wait, and counts once.
    cost, took = late[1:] - np.where(first[1:] < last[:-1], late[:-1], 0), max(last[-1] - last[0], 1)
    parts = max(MIN_POSITIONS - 1, len(cost) // (2 * MIN_POSITIONS))  # so short that a save now and then is in few
    stretches = [cost[at].sum() > others[at].sum() for at in np.array_split(np.arange(len(cost)), parts)]
    share = float(cost.sum() / took)
    if share < SHARE_OF_STEP or second > HALF * by_rank[latest] or np.mean(stretches) < ALWAYS:
        return None
    return LatestArriver(ranks[latest], len(positions), share)


MIN_LOOKS = whole_threshold("straggler.min_looks")
MANY_LOOKS = whole_threshold("straggler.many_looks")
MOSTLY = threshold("straggler.mostly")
"""In so many more of many samples each of the others waits; in each of few. A sample holds its rank up, and for so long
a straggler with short steps waits too."""
CHANCE = threshold("straggler.chance")
"""Or so seldom two ranks that wait alike are met so unequal."""
Looks = Mapping[int, Sequence[Activity | None]]


def find_straggler(
    groups: Mapping[str, GroupFacts],
    ranks: Mapping[int, RankFacts],
    sources: Mapping[str, SourceFile],
    paces: Sequence[Pace] = (),
) -> Straggler | None:
    """The only rank that hardly waits in any sample, or comes last to nearly every collective, or is the one that the
    watcher's own samples show to hold the others up, in a job whose ranks move.

    None when there is no such rank.
    """
    found = _last_to_arrive(groups, ranks, sources) or _waits_least(ranks, sources)
    pace = merged_pace(paces)
    late = found.rank if found is not None and found.positions else None
    slow = slow_rank_pace(pace, late) if pace is not None else None
    if pace is None or slow is None or slow.rank not in ranks or not any(f.moving for f in ranks.values()):
        return found
    a_little = slow.others - slow.waits < LESS and slow.change is None
    if a_little and (found is None or found.rank != slow.rank) and _whole_groups(groups):
        return found  # the times of entry would show it, were it late in nearly every step
    activity = activity_in(pace, slow.rank, slow.excess, sources) if slow.excess is not None else None
    places = [
        (one.rank, place.share * slow.samples, frames_of(place.frames)) for one in pace.ranks for place in one.places
    ]
    same = found if found is not None and found.rank == slow.rank else Straggler(slow.rank, None, 0, (), None)
    return replace(
        same,
        activity=_more_complete(activity, same.activity),
        waiters=tuple(sorted(set(ranks) - {slow.rank})),
        waiter=_waiter(pace, slow, sources) or same.waiter,
        waits=slow.waits,
        others=slow.others,
        pace_samples=slow.samples,
        change=slow.change,
        cost=same.cost or slow.others - slow.waits,
        own=_own_place(slow.rank, activity, places, slow.samples, slow.others - slow.waits),
    )


def _own_place(
    rank: int, activity: Activity | None, places: Sequence[tuple[int, float, Sequence[Frame]]], looks: int, less: float
) -> OwnPlace | None:
    """Where only ``rank`` is, by ``places`` of (rank, looks, frames): most of what it waits ``less``, not by chance."""
    where = activity.where if activity is not None else None
    if where is None:
        return None
    for name in ("function", "line"):
        here = attrgetter("file", name)
        if here(where) in {here(frame) for other, _, frames in places if other != rank for frame in frames}:
            continue
        mine = ((times, first_user_frame(frames)) for other, times, frames in places if other == rank)
        seen = round(sum(times for times, at in mine if at is not None and here(at) == here(where)))
        enough = seen >= EXPLAINS * less * looks and _chance(LeastWaiting(rank, 0, seen, looks)) <= CHANCE
        return OwnPlace(seen / looks, where.function if name == "function" else "") if enough else None
    return None


def _more_complete(of_many: Activity | None, of_few: Activity | None) -> Activity | None:
    """Where it mostly stood; a stack at the same line knows all frames, and so what they are for."""
    if of_many is None or of_few is None:
        return of_many or of_few
    there, here = of_many.where, of_few.where
    same = there is not None and here is not None and (there.file, there.line) == (here.file, here.line)
    return of_few if same and of_few.phase is of_many.phase else of_many


def _waiter(pace: Pace, slow: SlowRankPace, sources: Mapping[str, SourceFile]) -> Activity | None:
    """Where one of the others waits."""
    if slow.waiting is None:
        return None
    rank, place = slow.waiting
    return activity_in(pace, rank, place, sources)


def _last_to_arrive(
    groups: Mapping[str, GroupFacts], ranks: Mapping[int, RankFacts], sources: Mapping[str, SourceFile]
) -> Straggler | None:
    moving = [r for r, facts in ranks.items() if facts.alive and facts.moving]
    latest = latest_arriver(groups, ranks) if len(moving) == len(ranks) > 1 else None
    if latest is None:
        return None
    busy = _mostly(_looks_at(ranks, sources), latest.rank)
    waiters = tuple(sorted(set(ranks) - {latest.rank}))
    waiter = ranks[waiters[0]].activity
    return Straggler(latest.rank, busy, 0, waiters, waiter, latest.positions, cost=latest.cost)


def _waits_least(ranks: Mapping[int, RankFacts], sources: Mapping[str, SourceFile]) -> Straggler | None:
    looks = _looks_at(ranks, sources)
    least, used = least_waiting(looks), most_used_processor(ranks)
    if least is None or not any(ranks[rank].moving for rank in looks if rank != least.rank):
        return None  # Those who wait do not get on: that is a stall, which other detectors see.
    less = least.others - least.waited
    seldom = least.waited <= HALF * least.others
    many = least.looks >= MANY_LOOKS
    seen = seldom and (less >= (MOSTLY if many else 1) * least.looks or (many and _chance(least) <= CHANCE))
    if not seen and (used is None or not many):
        return None
    rank = least.rank if seen or used is None else used.rank
    activity = _mostly(looks, rank)
    if activity is None:
        return None
    waiters = tuple(sorted(set(looks) - {rank}))
    waiter = looks[waiters[0]][-1]
    found = Straggler(rank, activity, 0, waiters, waiter)
    if seen:
        shares = (least.waited / least.looks, least.others / least.looks)
        places = [(one, 1.0, look.frames) for one, seen_at in looks.items() for look in seen_at[-least.looks :] if look]
        own = _own_place(rank, activity, places, least.looks, shares[1] - shares[0])
        found = replace(found, samples=least.looks, waits=shares[0], others=shares[1], own=own)
    return replace(found, cost=used.own - used.others, used=used) if used is not None and used.rank == rank else found


def _chance(least: LeastWaiting) -> float:
    """Fisher's exact test: how often, of two that wait alike, one would be seen to wait so seldom, or less."""
    looks, both = least.looks, least.waited + least.others
    ways = (comb(looks, own) * comb(looks, both - own) for own in range(least.waited + 1))
    return sum(ways) / comb(2 * looks, both)


def most_used_processor(ranks: Mapping[int, RankFacts]) -> UsedProcessor | None:
    """The rank whose thread computed, or wanted to, clearly more of the time than that of any other, between the first
    look and the last; None where no rank did, or the kernel does not tell."""
    shares = {rank: share for rank, known in ranks.items() if (share := _busy_share(known.process.kernel)) is not None}
    if len(shares) < 2 or len(shares) < len(ranks):
        return None
    others, own = sorted(shares.values())[-2:]
    return UsedProcessor(max(shares, key=shares.__getitem__), own, others) if own - others >= SHARE_OF_STEP else None


def _busy_share(kernel: Sequence[Mapping[str, Any]]) -> float | None:
    told = ((one.get("at_ns"), one.get("busy_ns")) for one in kernel)
    times = [(at_ns, busy_ns) for at_ns, busy_ns in told if isinstance(at_ns, int) and isinstance(busy_ns, int)]
    if len(times) < MANY_LOOKS:
        return None
    (began_ns, before_ns), (ended_ns, after_ns) = times[0], times[-1]
    return min(1.0, (after_ns - before_ns) / (ended_ns - began_ns)) if ended_ns > began_ns else None


def find_least_waiting(
    ranks: Mapping[int, RankFacts], sources: Mapping[str, SourceFile], paces: Sequence[Pace] = ()
) -> LeastWaiting | None:
    """By the watcher's own samples where there are enough, else by the stacks of living ranks."""
    pace = merged_pace(paces)
    if pace is None or pace.samples < MIN_SAMPLES or len(pace.ranks) < 2:
        return least_waiting(_looks_at(ranks, sources))
    least, second, *_ = sorted(pace.ranks, key=lambda rank: (rank.waits, rank.rank))
    return LeastWaiting(least.rank, round(least.waits * pace.samples), round(second.waits * pace.samples), pace.samples)


def least_waiting(looks: Looks) -> LeastWaiting | None:
    """Of several ranks that were looked at often enough, the one that waited least."""
    count = min((len(seen) for seen in looks.values()), default=0)
    if count < MIN_LOOKS or len(looks) < 2:
        return None
    sleeps = _waits_asleep(looks)
    waited = {rank: sum(waits(look, sleeps=sleeps) for look in seen[-count:]) for rank, seen in looks.items()}
    rank = min(waited, key=lambda rank: waited[rank])
    return LeastWaiting(rank, waited[rank], min(times for other, times in waited.items() if other != rank), count)


def may_be_waited_for(least: LeastWaiting) -> bool:
    """It waits so much less than all others that they may be waiting for it, though it may be chance."""
    less = least.others - least.waited
    return least.waited <= HALF * least.others and less >= max(1, SHARE_OF_STEP * least.looks)


def _mostly(looks: Looks, rank: int) -> Activity | None:
    """What ``rank`` did most often of what is no waiting; of equals, last."""
    sleeps = _waits_asleep(looks)
    busy = [look for look in reversed(looks.get(rank, ())) if look is not None and not waits(look, sleeps=sleeps)]
    often = Counter((look.what, look.where) for look in busy)
    return max(busy, key=lambda look: often[look.what, look.where], default=None)


def _looks_at(ranks: Mapping[int, RankFacts], sources: Mapping[str, SourceFile]) -> dict[int, list[Activity | None]]:
    """Activities in all looks at each living rank, oldest first."""
    alive = {rank: known for rank, known in ranks.items() if known.alive and known.stack is not None}
    return {
        rank: [*(activity_of(stack, sources)[0] for stack in known.earlier_stacks), known.activity]
        for rank, known in alive.items()
    }


def _waits_asleep(looks: Looks) -> bool:
    """A rank was seen asleep in backward: who uses the processor there computes."""
    return any(look is not None and _sleeps_in_backward(look) for seen in looks.values() for look in seen)


def _sleeps_in_backward(activity: Activity) -> bool:
    return activity.what == "backward" and activity.thread is not None and activity.thread.active is False


def waits(activity: Activity | None, *, sleeps: bool = False) -> bool:
    """It stands in a collective, or in backward; where others sleep there (``sleeps``), only if it does too."""
    if activity is None or in_collective(activity):
        return activity is not None
    return _sleeps_in_backward(activity) if sleeps else activity.what == "backward"
