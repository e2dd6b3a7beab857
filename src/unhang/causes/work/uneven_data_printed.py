"""uneven-data: in logs alone: counts that must be equal on all ranks differ, or a guard says that data differs.

What happens: one rank ran (or has) 327 batches, another 338; counters of ranks in lockstep stop two or more apart; or
`same_on_all_ranks` or `even_batches(…, "error")` found other rows, splits or numbers of batches.
Why it hangs: the rank with fewer leaves the loop first; the others wait in a collective of the next step. A guard stops
them before that.
Example: `Ran 327 validation batches`, `Ran 338 validation batches`, and nothing after it; `RanksDiffer: even_batches at
train.py:40: numbers of batches differ: ranks 0, 1, 3 97, rank 2 100`.
Fix: the same data set, split (a seed) and filter on every rank; drop_last; or stop together.
Certain when: a guard's error names the ranks and the first difference.
Possible when: only the counters' last values differ, no line says of which rank a count is, or the ranks made steps
after they had printed it; likely otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.wording.even_data_remedies import equal_shards_remedy, leave_together_remedy
from unhang.facts.endings.guard_errors import ParsedGuardError, guard_errors
from unhang.facts.logs.per_rank_counts import UnequalCounts, unequal_counts
from unhang.facts.model import Facts
from unhang.findings import Cause, Grade, Phase
from unhang.knowledge.remedies import remedy
from unhang.sentences import say

CAUSE = Cause.UNEVEN_DATA


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Counts that differ, and errors of guards that compare data or count batches."""
    counts = unequal_counts(facts)
    if counts is not None:
        yield _found(facts, counts)
    yield from (_compared(error) for error in guard_errors(facts.tracebacks) if error.said.kind == "differ")


def _found(facts: Facts, counts: UnequalCounts) -> DetectorResult:
    shards = equal_shards_remedy(facts, counts.evidence)
    return make_signal(
        CAUSE,
        Grade.ORDER,
        say("ranks do not run the same number of steps: {what}: {told}", what=counts.what, told=counts.told),
        whole=counts.announced and bool(counts.short) and not counts.went_on,
        ranks=counts.short,
        phase=Phase.EVAL if "val" in counts.what.lower() else Phase.DATA,
        because=(
            say("each rank must print the same number, for each step holds a collective")
            if counts.announced
            else say("ranks that share a collective in each step stop at most one step apart"),
            *((say("all of them went on after they had printed it"),) if counts.went_on else ()),
        ),
        evidence=counts.evidence,
        remedies=(
            *((shards,) if shards is not None else ()),
            remedy("equalize-batches-before-sharding"),
            leave_together_remedy(facts),
        ),
    )


def _compared(error: ParsedGuardError) -> DetectorResult:
    return make_signal(
        CAUSE,
        Grade.STATED,
        say(
            "a guard stopped the job: {ranks:who} {ranks:holds|hold} other data: {detail}",
            ranks=error.said.ranks,
            detail=error.said.detail,
        ),
        ranks=error.said.ranks,
        where=error.raised_at,
        because=(say("the ranks compared it with each other on the job's store"),),
        evidence=(error.evidence,),
        remedies=(remedy("equalize-data"),),
    )
