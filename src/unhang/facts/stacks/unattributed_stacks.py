"""Stacks of several processes in one paste, without a word which rank each is: what they did, side by side.

A tool that folds equal stacks prints the heads of all threads first and the frames once: a head without frames shares
those of the next.
"""

from __future__ import annotations

from dataclasses import dataclass

from unhang.evidence.items import StackDump, ThreadStack
from unhang.facts.model import Activity, Facts
from unhang.facts.stacks.activity import activity_of
from unhang.knowledge.thresholds import whole_threshold

MIN_PROCESSES = whole_threshold("unattributed_stacks.min_processes")
_MAIN = "MainThread"


@dataclass(frozen=True, slots=True)
class UnattributedCohort:
    """``count`` processes stood in the same kind of place."""

    what: str
    count: int
    activity: Activity


def unattributed_cohorts(facts: Facts) -> tuple[UnattributedCohort, ...]:
    """Cohorts of main threads over all stacks without a rank, biggest first; empty when there is one process only."""
    counted: dict[str, int] = {}
    first: dict[str, Activity] = {}
    seen: set[int] = set()
    for dump in facts.unattributed_stacks:
        if dump.pid in seen:
            continue  # a later sample of the same process
        if dump.pid is not None:
            seen.add(dump.pid)
        shared = 1
        for thread in dump.threads:
            if thread.name.strip('"') != _MAIN:
                continue
            if not thread.frames:
                shared += 1
                continue
            activity = _activity(dump, thread, facts)
            if activity is not None:
                counted[activity.what] = counted.get(activity.what, 0) + shared
                first.setdefault(activity.what, activity)
            shared = 1
    if sum(counted.values()) < MIN_PROCESSES:
        return ()
    cohorts = [UnattributedCohort(what, count, first[what]) for what, count in counted.items()]
    return tuple(sorted(cohorts, key=lambda cohort: (-cohort.count, cohort.what)))


def _activity(dump: StackDump, thread: ThreadStack, facts: Facts) -> Activity | None:
    alone = StackDump(dump.source, None, None, (thread,), dump.format)
    return activity_of(alone, facts.sources)[0]
