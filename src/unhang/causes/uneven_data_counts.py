"""uneven-data: in logs alone: counts that must be equal on all ranks are printed and differ.

What happens: one rank ran (or has) 327 batches, another 338; or counters of ranks in lockstep stop two or more apart.
Why it hangs: the rank with fewer leaves the loop first; the others wait in a collective of the next step.
Example: `Ran 327 validation batches`, `Ran 338 validation batches`, and nothing after it.
Fix: the same data set, split and filter on every rank; drop_last; or stop together.
Certain when: never from logs alone.
Possible when: only the counters' last values differ, no line says of which rank a count is, or the ranks made steps
after they had printed it.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.counts import UnequalCounts, unequal_counts
from unhang.facts.crashes import own_crashes
from unhang.facts.model import Facts
from unhang.findings import Cause, Certainty, Phase, Remedy, say
from unhang.rules.even_remedies import equal_shards, leave_together
from unhang.rules.evidence_lines import hosts_of
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.UNEVEN_DATA


def check(facts: Facts) -> Iterator[Answer]:
    """Counts that differ, unless stacks or dumps say more or a rank failed by itself."""
    if any(k.recording is not None or k.stack is not None for k in facts.ranks.values()) or own_crashes(facts):
        return
    counts = unequal_counts(facts)
    if counts is not None:
        yield _found(facts, counts)


def _found(facts: Facts, counts: UnequalCounts) -> Answer:
    return finding(
        CAUSE,
        Certainty.LIKELY if counts.announced and counts.short and not counts.went_on else Certainty.POSSIBLE,
        say("ranks do not run the same number of steps: {what}: {told}", what=counts.what, told=counts.told),
        ranks=counts.short,
        nodes=hosts_of(facts, counts.short),
        phase=Phase.EVAL if "val" in counts.what.lower() else Phase.DATA,
        because=(
            say("each rank must print the same number, for each step holds a collective")
            if counts.announced
            else say("ranks that share a collective in each step stop at most one step apart"),
            *((say("all of them went on after they had printed it"),) if counts.went_on else ()),
        ),
        evidence=counts.evidence,
        remedies=(*_shards(facts, counts), _equal(), leave_together(facts)),
    )


def _equal() -> Remedy:
    return remedy("give-every-rank-the-same-number-of")


def _shards(facts: Facts, counts: UnequalCounts) -> tuple[Remedy, ...]:
    shards = equal_shards(facts, counts.evidence)
    return () if shards is None else (shards,)
