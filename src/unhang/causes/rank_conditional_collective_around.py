"""rank-conditional-collective: a rank went through a step without its collectives, and is ahead of the others since.

What happens: the loop runs equally often on all ranks, and still one stands behind it while the others are in it.
Why it hangs: a `continue`, a handler or an early return led that rank around the collectives of an earlier step; its
next ones met those of the others one step late, until the loop was over for it alone.
Example: `if not torch.isfinite(loss): continue` before `loss.backward()`; an exception of one rank's read, caught.
Fix: decide it together: all-reduce the flag before the test, so that every rank skips in the same step.
Certain when: never; which step it was, no record tells.
Possible when: likely, where the source shows a loop of equal rounds on every rank and no way out of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.left_early import LeftEarly, left_early
from unhang.facts.model import Facts
from unhang.facts.step_counts import step_counts
from unhang.facts.ways_around import WaysAround
from unhang.findings import Cause, Certainty, Remedy, say
from unhang.rules.evidence_lines import group_label, hosts_of
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding
from unhang.rules.way_lines import decide_together, runs_equally_often, told_of_ways

CAUSE = Cause.RANK_CONDITIONAL_COLLECTIVE


def check(facts: Facts) -> Iterator[Answer]:
    """Past a loop that cannot be shorter on one rank and that nothing leaves."""
    if step_counts(facts).differ:
        return
    for left in left_early(facts):
        if left.around is not None and left.went_around:
            yield _found(facts, left, left.around)


def _found(facts: Facts, left: LeftEarly, around: WaysAround) -> Answer:
    past, inside = left.past, left.inside
    return finding(
        CAUSE,
        left.certainty.capped(Certainty.LIKELY),
        say(
            "{ranks:who} went around collectives of an earlier step, and left the loop before the others",
            ranks=past.ranks,
        ),
        ranks=past.ranks,
        nodes=hosts_of(facts, past.ranks),
        group=group_label(facts, left.group),
        phase=past.phase,
        where=past.where,
        waiter_where=inside.where,
        because=(runs_equally_often(around), *told_of_ways(around.ways)),
        evidence=tuple(camp.evidence for camp in (past, inside) if camp.evidence is not None),
        remedies=tuple(decide_together(around.ways)) or (_count_the_calls(),),
    )


def _count_the_calls() -> Remedy:
    return remedy("make-every-step-issue-the-same-collectives")
