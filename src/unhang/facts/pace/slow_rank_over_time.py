"""The rank that a moving job waits for, from many samples of all ranks: who never waits, doing what, since which step.

The laggard's own work is what it does more often than the others do: all ranks compute, one also writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING

from msgspec import structs

from unhang.evidence.items import SourceFile, StackDump, ThreadStack, frames_of
from unhang.facts.model import Activity
from unhang.facts.pace_change import AllWait, StepChange, find_step_change
from unhang.facts.stacks.activity import activity_of
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.findings import Phase
from unhang.knowledge.thresholds import threshold, whole_threshold

if TYPE_CHECKING:
    from unhang.wire.documents.pace import Pace, PacePlace, RankPace

MIN_LOOKS = whole_threshold("slow_rank_over_time.min_looks")
LESS = threshold("slow_rank_over_time.less")
"""Share of ``MIN_LOOKS`` samples by which it must wait less than every other rank does; of more, less is enough."""
LESS_SLOWER = threshold("slow_rank_over_time.less_slower")
"""The same where steps have grown slower, and of however many samples."""
HALF = threshold("slow_rank_over_time.half")
"""It may wait in so many of the samples in which any other rank does."""
ALL_WAIT = threshold("slow_rank_over_time.all_wait")
"""Every rank waits in so many of the samples: no rank is late, what lies between them is."""
EXPLAINS = threshold("slow_rank_over_time.explains")
"""What it waits less must be at least so much of what steps have grown by."""
_PHASES = {phase.value for phase in Phase}


@dataclass(frozen=True, slots=True)
class SlowRankPace:
    """``rank`` waited in the share ``waits`` of ``samples`` samples, every other one in at least ``others``.

    ``excess``: where it stood more often than they did; ``waiting``: another rank, and where that waited most.
    """

    rank: int
    waits: float
    others: float
    samples: int
    change: StepChange | None
    excess: PacePlace | None
    waiting: tuple[int, PacePlace] | None


def slow_rank_pace(pace: Pace, late: int | None = None) -> SlowRankPace | None:
    """The one rank that holds the others up, or what is told of ``late``, of which that is known; None where the
    samples are few, or no rank does."""
    if pace.samples < MIN_LOOKS or len(pace.ranks) < 2:
        return None
    laggard = min(pace.ranks, key=lambda rank: (rank.rank != late, rank.waits, rank.rank))
    others = [rank for rank in pace.ranks if rank is not laggard]
    # Each rank is sampled in its own moment, so only shares can be compared, not who waits while who works.
    usual = min(rank.waits for rank in others)
    less = usual - laggard.waits
    change = find_step_change(laggard.steps)
    if change is not None and less < EXPLAINS * change.lost_share:
        change = None
    lost_share = change.lost_share if change is not None else 0.0
    if laggard.rank != late and not holds_up(laggard.waits, usual, lost_share, pace.samples):
        return None
    return SlowRankPace(
        laggard.rank, laggard.waits, usual, pace.samples, change, _excess(laggard, others), _waiting(others)
    )


def holds_up(waits: float, usual: float, lost_share: float, samples: float) -> bool:
    """Whether a rank that waits in the share ``waits`` of ``samples``, and every other one in at least ``usual``, holds
    them up. ``lost_share``: which part of a step of now was not there before, 0 where steps are as they were."""
    less = usual - waits
    explains = lost_share > 0 and less >= EXPLAINS * lost_share
    by_chance = LESS * sqrt(MIN_LOOKS / samples)  # what two shares of so many samples may differ by
    return waits <= HALF * usual and less >= (LESS_SLOWER if explains else max(LESS_SLOWER, by_chance))


def lies_between(slower: AllWait) -> bool:
    """All ranks wait much: no rank is late, what lies between them is."""
    return slower.waits >= ALL_WAIT


def find_all_slower(paces: Sequence[Pace]) -> AllWait | None:
    """Whose steps have grown on every rank; the share is that of the one that waits least."""
    pace = merged_pace(paces)
    if pace is None or pace.samples < MIN_LOOKS or len(pace.ranks) < 2:
        return None
    changes = [find_step_change(rank.steps) for rank in pace.ranks if rank.steps]
    known = [change for change in changes if change is not None]
    if not known or len(known) < len(changes):
        return None
    return AllWait(min(rank.waits for rank in pace.ranks), pace.samples, known[0])


def merged_pace(paces: Sequence[Pace]) -> Pace | None:
    """One record of all ranks of all nodes; of a rank that several tell of, what tells most. None without any."""
    if not paces:
        return None
    main = max(paces, key=lambda pace: (pace.samples, pace.source.path))
    ranks: dict[int, RankPace] = {}
    for rank in (*main.ranks, *(rank for pace in paces if pace is not main for rank in pace.ranks)):
        known = ranks.get(rank.rank)
        if known is None or (not known.places and rank.places):
            ranks[rank.rank] = rank
    return structs.replace(main, ranks=tuple(ranks[rank] for rank in sorted(ranks)))


def _excess(laggard: RankPace, others: list[RankPace]) -> PacePlace | None:
    """The place that stands out most, of the phase that stands out most."""
    usual: dict[object, float] = defaultdict(float)
    for rank in others:
        for place in rank.places:
            usual[_key(place)] += place.share / len(others)
    own = [place for place in laggard.places if place.phase != "communication"]
    more = {_key(place): place.share - usual[_key(place)] for place in own}
    phases: dict[str, float] = defaultdict(float)
    for place in own:
        phases[place.phase] += more[_key(place)]
    if not phases:
        return None
    phase = max(phases, key=lambda name: phases[name])
    place = max((p for p in own if p.phase == phase), key=lambda p: more[_key(p)])
    return place if more[_key(place)] > 0 else None


def _waiting(others: list[RankPace]) -> tuple[int, PacePlace] | None:
    places = [(r.rank, p) for r in others for p in r.places if p.phase == "communication"]
    return max(places, key=lambda found: (found[1].share, -found[0]), default=None)


def _key(place: PacePlace) -> object:
    return (place.phase, first_user_frame(frames_of(place.frames)) or place.frames[:1])


def activity_in(pace: Pace, rank: int, place: PacePlace, sources: Mapping[str, SourceFile]) -> Activity | None:
    """What a rank does at ``place``; only the innermost frames are kept, the phase was told by all of them."""
    thread = ThreadStack("MainThread", "", frames_of(place.frames))
    stack = StackDump(pace.source, rank, None, (thread,), "pace")
    activity = activity_of(stack, sources)[0] if place.frames else None
    if activity is None or activity.phase is not Phase.OTHER or place.phase not in _PHASES:
        return activity
    return replace(activity, phase=Phase(place.phase))
