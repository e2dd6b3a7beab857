"""Whether, in a job that moves, it is always the same rank the others wait for.

A straggler shows in repeated samples: it is busy while all others stand in a collective or behind it. Or it comes last
to nearly every collective, by the times in the recorders' dumps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from unhang.evidence.items import SourceFile
from unhang.facts.model import Activity, GroupFacts, RankFacts, Straggler
from unhang.facts.pace.slow_rank_over_time import HALF, SlowRankPace, activity_in, merged_pace, slow_rank_pace
from unhang.facts.stacks.activity import activity_of
from unhang.facts.waiting.progress_from_stacks import in_collective
from unhang.knowledge.thresholds import threshold, whole_threshold

if TYPE_CHECKING:
    from unhang.evidence.items import IntColumn
    from unhang.wire.documents.pace import Pace

MIN_POSITIONS = whole_threshold("straggler.min_positions")
ALWAYS = threshold("straggler.always")
"""Share of positions at which the same rank must come last."""
SHARE_OF_STEP = threshold("straggler.share_of_step")
"""Its median lateness must be at least this share of the median time between positions."""


def latest_arriver(groups: Mapping[str, GroupFacts], ranks: Mapping[int, RankFacts]) -> tuple[int, int] | None:
    """(rank, positions compared) of the rank that practically always comes last and holds the others up by much."""
    if len({facts.host for facts in ranks.values() if facts.host}) > 1:
        return None
    for _, group in sorted(groups.items(), key=lambda item: (-len(item[1].members), item[0])):
        if len(group.entries) >= 2 and len(group.entries) == len(group.members):
            found = _latest_in(group)
            if found is not None:
                return found
    return None


def _latest_in(group: GroupFacts) -> tuple[int, int] | None:
    import numpy as np

    ranks = sorted(group.entries)
    shared = set.intersection(*(set(group.entries[rank].position.tolist()) for rank in ranks))
    positions = np.array(sorted(shared), dtype=np.int64)
    if len(positions) < MIN_POSITIONS:
        return None
    created = np.stack([_created(group, rank, positions) for rank in ranks])
    if not created.all():
        return None
    last = created.argmax(axis=0)
    counts = np.bincount(last, minlength=len(ranks))
    latest = int(counts.argmax())
    others = np.sort(np.delete(created, latest, axis=0), axis=0)[-1]
    lateness = float(np.median(created[latest] - others))
    step = float(np.median(np.diff(created.min(axis=0))))
    if counts[latest] < ALWAYS * len(positions) or lateness < SHARE_OF_STEP * step:
        return None
    return ranks[latest], len(positions)


def _created(group: GroupFacts, rank: int, positions: IntColumn) -> IntColumn:
    import numpy as np

    entries = group.entries[rank]
    created: IntColumn = entries.created_ns[np.searchsorted(entries.position, positions)]
    return created


MIN_LOOKS = whole_threshold("straggler.min_looks")
MANY_LOOKS = whole_threshold("straggler.many_looks")
MOSTLY = threshold("straggler.mostly")
"""In so many more of many samples each of the others waits; in each of few. A sample holds its rank up, and for so long
a straggler with short steps waits too."""


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
    found = _waits_least(ranks, sources) or _last_to_arrive(groups, ranks, sources)
    pace = merged_pace(paces)
    slow = slow_rank_pace(pace) if pace is not None else None
    if pace is None or slow is None or slow.rank not in ranks or not any(f.moving for f in ranks.values()):
        return found
    activity = activity_in(pace, slow.rank, slow.excess, sources) if slow.excess is not None else None
    waiters = tuple(sorted(set(ranks) - {slow.rank}))
    same = found if found is not None and found.rank == slow.rank else None
    return Straggler(
        slow.rank,
        _more_complete(activity, same.activity if same is not None else None),
        same.samples if same is not None else 0,
        waiters,
        _waiter(pace, slow, sources) or (same.waiter if same is not None else None),
        same.positions if same is not None else 0,
        slow.waits,
        slow.others,
        slow.samples,
        slow.change,
    )


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
    rank, positions = latest
    busy = next(
        (a for a in reversed(_sampled_activities(ranks[rank], sources)) if a is not None and not _waits(a)), None
    )
    waiters = tuple(sorted(set(ranks) - {rank}))
    return Straggler(rank, busy, 0, waiters, ranks[waiters[0]].activity, positions)


def _waits_least(ranks: Mapping[int, RankFacts], sources: Mapping[str, SourceFile]) -> Straggler | None:
    alive = {r: f for r, f in ranks.items() if f.alive and f.stack is not None}
    if len(alive) < 2:
        return None
    samples = {rank: _sampled_activities(facts, sources) for rank, facts in alive.items()}
    count = min(len(seen) for seen in samples.values())
    if count < MIN_LOOKS:
        return None
    waited = {rank: sum(_waits(look) for look in seen[-count:]) for rank, seen in samples.items()}
    rank = min(waited, key=lambda rank: waited[rank])
    usual = min(times for other, times in waited.items() if other != rank)
    less = usual - waited[rank]
    if waited[rank] > HALF * usual or less < (count if count < MANY_LOOKS else MOSTLY * count):
        return None
    activity = next((look for look in reversed(samples[rank]) if look is not None and not _waits(look)), None)
    if activity is None:
        return None
    waiters = tuple(sorted(set(alive) - {rank}))
    if not any(ranks[waiter].moving for waiter in waiters):
        # Those who wait do not get on: that is a stall, which other detectors see.
        return None
    return Straggler(rank, activity, count, waiters, samples[waiters[0]][-1])


def _sampled_activities(facts: RankFacts, sources: Mapping[str, SourceFile]) -> list[Activity | None]:
    """Activities of all samples of this rank, oldest first."""
    earlier = [activity_of(stack, sources)[0] for stack in facts.earlier_stacks]
    return [*earlier, facts.activity]


def _waits(activity: Activity | None) -> bool:
    return activity is not None and (in_collective(activity) or activity.what == "backward")
