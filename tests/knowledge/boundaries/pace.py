"""Paces of jobs that move: histories of steps, shares of looks, times of arrival."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.facts.jobs import call, job, recording
from tests.knowledge.boundaries.boundary import turns
from unhang.causes.wording.pace_reasons import slow_rank_signal
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import Frame, LogEvent, LogReading, Progress, StackDump, ThreadStack
from unhang.facts.build import build_facts
from unhang.facts.model import RankFacts, Straggler
from unhang.facts.pace.slow_rank_over_time import find_all_slower, holds_up, lies_between, slow_rank_pace
from unhang.facts.pace.step_slowdown import slowdown_until_end, step_slowdown
from unhang.facts.pace.straggler import find_straggler, latest_arriver
from unhang.facts.pace_change import find_step_change
from unhang.facts.stacks.activity import activity_of
from unhang.findings import Source
from unhang.sentences import say
from unhang.wire.documents.pace import Pace, RankPace

START_S = 1_760_000_000.0


# ---------------------------------------------------------------------------------------------------
# the watcher's history of steps


def change(*seconds: float) -> int | None:
    """The step since which a history of these durations is slower."""
    found = find_step_change(list(enumerate(seconds)))
    return found.step if found is not None else None


@turns("pace_change.min_steps")
def entries_after_the_change(count: int) -> object:
    return change(*[0.4] * 60, *[0.8] * count)


@turns("pace_change.slower")
def slower_by(ratio: float) -> object:
    return change(*[0.4] * 40, *[0.4 * ratio] * 40)


@turns("pace_change.noise_times")
def slower_by_many_times_the_noise(times: float) -> object:
    noisy = [1.0, 1.5] * 30
    return change(*noisy, *[1.0 + 0.5 * times] * 30)


@turns("pace_change.window", 2, 3)
def fast_again_for_a_moment(entries: int) -> object:
    return change(*[0.4] * 40, *[0.8] * 20, *[0.4] * entries, *[0.8] * 8)


@turns("pace_change.dip_share")
def as_fast_as_before_for_a_part_of_the_slow_end(share: float) -> object:
    return change(*[0.4] * 60, *[0.8] * 400, *[0.4] * round(share * 400), *[0.8] * 600)


@turns("pace_change.first_share")
def climbs_in_two_steps(share: float) -> object:
    return change(*[0.4] * 40, *[0.4 + share * 0.6] * 20, *[1.0] * 20)


# ---------------------------------------------------------------------------------------------------
# shares of looks


def pace(looks: int, *waits: float, slower: bool = False) -> Pace:
    """Ranks that wait in so much of the looks, in a job whose steps are as they were or slower."""
    steps = tuple((number, 0.8 if slower and number > 40 else 0.4) for number in range(80))
    return Pace(
        source=Source("pace.json"),
        samples=looks,
        ranks=tuple(RankPace(rank, steps, share) for rank, share in enumerate(waits)),
    )


@turns("slow_rank_over_time.min_looks")
def few_looks(looks: int) -> object:
    return slow_rank_pace(pace(looks, 0.0, 0.9)) is not None, find_all_slower(
        [pace(looks, 0.9, 0.9, slower=True)]
    ) is not None


@turns("slow_rank_over_time.less")
def waits_less(share: float) -> object:
    return holds_up(0.0, share, 0.0, 60)


@turns("slow_rank_over_time.less_slower")
def waits_less_and_steps_grew(share: float) -> object:
    return holds_up(0.0, share, 0.02, 60)


@turns("slow_rank_over_time.half")
def waits_half_as_much(share: float) -> object:
    return holds_up(share, 1.0, 0.0, 60)


@turns("slow_rank_over_time.explains")
def explains_what_steps_grew_by(share: float) -> object:
    return holds_up(0.0, 0.6 * share, 0.6, 60)


@turns("slow_rank_over_time.all_wait")
def all_wait(share: float) -> object:
    slower = find_all_slower([pace(240, share, share, slower=True)])
    return slower is not None and lies_between(slower)


WAITS = (Frame("all_reduce", "torch/distributed/distributed_c10d.py", 3042), Frame("main", "/job/train.py", 9))
WORKS = (Frame("compute", "/job/train.py", 20), Frame("main", "/job/train.py", 8))


def straggler(rank_1: Sequence[bool]) -> Straggler | None:
    """Rank 0 works in every look, rank 1 waits in some."""
    return find_straggler({}, {0: _looked_at(0, [False] * len(rank_1)), 1: _looked_at(1, rank_1)}, {})


def _looked_at(rank: int, waits: Iterable[bool]) -> RankFacts:
    *earlier, last = [_stack(rank, WAITS if one else WORKS) for one in waits]
    activity = activity_of(last, {})[0]
    return RankFacts(rank, moving=True, stack=last, earlier_stacks=tuple(earlier), activity=activity)


def _stack(rank: int, frames: tuple[Frame, ...]) -> StackDump:
    thread = ThreadStack("MainThread", "1", frames)
    return StackDump(Source(f"stacks/rank_{rank}.txt"), rank, None, (thread,), "py-spy")


@turns("straggler.min_looks")
def few_stacks(looks: int) -> object:
    return straggler([True] * looks) is not None


@turns("straggler.many_looks")
def one_look_of_another_kind(looks: int) -> object:
    return straggler([False] + [True] * (looks - 1)) is not None


@turns("straggler.mostly", 2, 3)
def waits_in_most_looks(times: int) -> object:
    return straggler([number < times for number in range(5)]) is not None


@turns("straggler.chance", 6, 7)
def waits_in_a_part_of_the_looks(times: int) -> object:
    return straggler([number < times for number in range(12)]) is not None


@turns("pace_reasons.many_looks")
def sure_of_a_straggler(looks: int) -> object:
    nobody = build_facts(EvidenceSet())
    return slow_rank_signal(nobody, Straggler(0, None, looks, (1,), None), say("rank 0 is slow"), ()).whole


# ---------------------------------------------------------------------------------------------------
# who comes last


def latest(late_s: Sequence[float]) -> object:
    """Collectives a second apart; rank 1 enters each so much after rank 0, or before it."""
    dumps = []
    for rank in (0, 1):
        calls = [call(position) for position in range(1, len(late_s) + 1)]
        for one, late in zip(calls, late_s, strict=True):
            own = late if rank == 1 else 0.0
            one["time_created_ns"] += int((one["collective_seq_id"] + own) * 1e9)
        dumps.append(recording(rank, calls, groups={"0": (0, 1)}))
    facts = build_facts(job(*dumps))
    return latest_arriver(facts.groups, facts.ranks) is not None


@turns("straggler.min_positions")
def few_positions(count: int) -> object:
    return latest([0.6] * count)


@turns("straggler.always")
def nearly_always_last(share: float) -> object:
    return latest([0.6 if number < round(60 * share) else -0.2 for number in range(60)])


@turns("straggler.share_of_step")
def late_by(share: float) -> object:
    return latest([share] * 40)


# ---------------------------------------------------------------------------------------------------
# steps as a log prints them


def loop(*seconds: float, end_s: float | None = None) -> EvidenceSet:
    """A loop whose steps took so long; ``end_s``: the job was ended so long after the last."""
    times = [START_S]
    for one in seconds:
        times.append(times[-1] + one)
    recent = tuple(enumerate(times))
    source = Source("job.log", line=1)
    steps = Progress(source, None, "step", 0, len(seconds), None, times[0], times[-1], len(times), recent=recent)
    ended = [LogEvent("te.signal", source, "death signal", None, times[-1] + end_s)] if end_s is not None else []
    return EvidenceSet(logs=[LogReading(source, None, tuple(ended), (), (), (steps,), (), len(times), ())])


def grown(*seconds: float) -> int | None:
    """The step since which they are longer."""
    found = step_slowdown(build_facts(loop(*seconds)))
    return found.since_step if found is not None else None


@turns("step_slowdown.slower")
def grown_by(ratio: float) -> object:
    return grown(*[1.0] * 50, *[ratio] * 50) is not None


@turns("step_slowdown.still_moves")
def ended_after(steps: float) -> object:
    return slowdown_until_end(build_facts(loop(*[0.2] * 50, *[1.0] * 50, end_s=steps))) is not None
