"""What recorders and stacks tell: calls that differ, dumps of several runs, limits that are near."""

from __future__ import annotations

from typing import Any

from tests.facts.jobs import call, job, recording
from tests.knowledge.boundaries.boundary import turns
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import Frame, RecorderDump, StackDump, ThreadStack
from unhang.facts.alignment.nonfatal_mismatch import find_nonfatal_mismatches
from unhang.facts.alignment.position_calls import find_departure
from unhang.facts.build import build_facts
from unhang.facts.dump_choice import choose_dumps
from unhang.facts.stacks.unattributed_stacks import unattributed_cohorts
from unhang.facts.waiting.timeouts import is_limit_near
from unhang.findings import Source
from unhang.wire.documents.bundle import BundleManifest

PAIR = {"0": (0, 1)}
SECOND_NS = 1_000_000_000


def later(entry: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The same call, made so much later."""
    return {**entry, "time_created_ns": entry["time_created_ns"] + round(seconds * SECOND_NS)}


# ---------------------------------------------------------------------------------------------------
# calls that differ


@turns("mismatched_calls.density", 0.28, 0.34)
def an_earlier_difference(share: float) -> object:
    """Two differences: at the stall, and so far before it that they make up this share of what lies between."""
    first = 100 - round(2 / share - 1)
    dumps = []
    for rank in range(3):
        odd = {first: (99,), 100: (77,)} if rank == 2 else {}
        calls = [call(position, size=odd.get(position, (position % 7 + 1,))) for position in range(80, 100)]
        last = call(100, size=odd.get(100, (4,)), state="scheduled")
        dumps.append(recording(rank, [*calls, last], groups={"0": (0, 1, 2)}))
    (one,) = build_facts(job(*dumps)).mismatches
    return one.position == 100


@turns("position_calls.min_alike")
def calls_that_came_before(alike: int) -> object:
    """So many calls before the last one came before the same call of rank 0 once already."""
    again = range(10, 10 + alike)
    before = [call(at, size=(size,)) for at, size in enumerate((99, *again, 50, 98, *again), 1)]
    last = len(before) + 1
    ends = call(last, size=(50,)), call(last, "broadcast", size=(50,))
    dumps = [recording(rank, [*before, end], groups=PAIR) for rank, end in enumerate(ends)]
    return find_departure(build_facts(job(*dumps)).groups["0"].entries, last)


@turns("nonfatal_mismatch.together_s")
def called_apart_in_time(seconds: float) -> object:
    def dump(rank: int) -> RecorderDump:
        calls = [call(position, dtype="Int" if rank and position == 5 else "Float") for position in range(1, 10)]
        return recording(rank, [later(entry, seconds if rank else 0) for entry in calls], groups=PAIR)

    dumps = {rank: dump(rank) for rank in (0, 1)}
    return len(find_nonfatal_mismatches(build_facts(job(*dumps.values())).groups, dumps))


@turns("dump_choice.same_run_spread_s")
def two_dumps_of_a_rank(seconds: float) -> object:
    dumps = [recording(0, [later(call(1), after)], groups=PAIR, name=f"{after}/rank_0") for after in (0, seconds)]
    return len(choose_dumps(dumps).unread)


# ---------------------------------------------------------------------------------------------------
# a limit that is near


@turns("timeouts.near_share")
def a_share_is_left(share: float) -> object:
    """Of the limit of a call in which a rank waits."""
    return has_left(600 * share, of_s=600)


@turns("timeouts.near_s")
def seconds_are_left(seconds: float) -> object:
    """Of a limit so short that its share is shorter still."""
    return has_left(seconds, of_s=24)


def has_left(left_s: float, of_s: float) -> bool:
    entry = {**call(9, state="scheduled"), "timeout_ms": round(1000 * of_s)}
    began_s = entry["time_created_ns"] / SECOND_NS
    looked = BundleManifest(
        source=Source("bundle.json"),
        world_size=2,
        stalled_since_s=began_s,
        taken_s=began_s + of_s - left_s,
        live=True,
    )
    dumps = [recording(rank, [entry], groups=PAIR) for rank in (0, 1)]
    return is_limit_near(looked, build_facts(EvidenceSet(recorder_dumps=dumps, manifests=[looked])))


# ---------------------------------------------------------------------------------------------------
# stacks


@turns("unattributed_stacks.min_processes")
def stacks_of_nobody(processes: int) -> object:
    thread = ThreadStack("MainThread", "1", (Frame("compute", "/job/train.py", 20),))
    stacks = [
        StackDump(Source("paste.txt", line=number), None, 4000 + number, (thread,), "py-spy")
        for number in range(processes)
    ]
    return len(unattributed_cohorts(build_facts(EvidenceSet(stacks=stacks))))
