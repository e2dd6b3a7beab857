"""slow-data-loading: stacks of many processes, without their ranks: few wait for data, all others in collectives.

What happens: somebody pasted the stacks of all processes; the main thread of one or two waits in the loader's queue.
Why it hangs: those have no batch for their next step; the others are already in it.
Example: fifteen processes in broadcast, send or all_reduce, two in `_try_get_data (torch/utils/data/dataloader.py)`.
Fix: find those processes' loader workers, and what they wait for (a lock held over a fork, a file server).
Certain when: never: which ranks these are is not told.
Possible when: the stacks are of different moments.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.model import Facts
from unhang.facts.stray_stacks import stray_camps
from unhang.findings import Cause, Certainty, Phase, Remedy, say
from unhang.knowledge.thresholds import whole_threshold
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.SLOW_DATA_LOADING
FEW = whole_threshold("slow_data_loading_stray.few")
"""At most one process in so many waits for data."""


def check(facts: Facts) -> Iterator[Answer]:
    """A minority in the loader's queue, everybody else in communication."""
    if facts.stalls or facts.disagreements:
        return
    camps = stray_camps(facts)
    loading = [camp for camp in camps if camp.what.startswith("dataloader")]
    others = [camp for camp in camps if camp not in loading]
    if not loading or not others or any(c.activity.phase is not Phase.COMMUNICATION for c in others):
        return
    few, many = sum(c.count for c in loading), sum(c.count for c in others)
    if few * FEW > few + many:
        return
    activity = loading[0].activity
    yield finding(
        CAUSE,
        Certainty.LIKELY,
        say("{few} of {all} processes wait for their data loader, all others in collectives", few=few, all=few + many),
        phase=Phase.DATA,
        where=activity.where,
        waiter_where=others[0].activity.where,
        because=(say("whoever waits for a batch has not begun the step in which the others wait"),),
        evidence=(activity.evidence, others[0].activity.evidence),
        remedies=(_look_at_worker(),),
    )


def _look_at_worker() -> Remedy:
    return remedy("see-what-these-processes-loader-workers-wait")
