"""uneven-data: a guard stopped the ranks because their data differs, before they could wait for each other.

What happens: `same_on_all_ranks` or `even_batches(…, "error")` found other rows, splits or numbers of batches.
Why it hangs: it does not: without the guard the ranks with more batches would wait for those that are done.
Example: `RanksDiffer: even_batches at train.py:40: numbers of batches differ: ranks 0, 1, 3 97, rank 2 100`.
Fix: make the data the same (a seed for the split, equal shards), or let `even_batches` stop at the shortest.
Certain when: the guard's error names the ranks and the first difference.
Possible when: never; without the error another rule answers.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.guard_errors import GuardError, guard_errors
from unhang.facts.model import Facts
from unhang.findings import Cause, Certainty, say
from unhang.rules.evidence_lines import hosts_of
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.UNEVEN_DATA


def check(facts: Facts) -> Iterator[Answer]:
    """Errors of guards that compare data or count batches."""
    for error in guard_errors(facts.tracebacks):
        if error.kind == "differ":
            yield _found(facts, error)
            return


def _found(facts: Facts, error: GuardError) -> Answer:
    return finding(
        CAUSE,
        Certainty.CERTAIN,
        say(
            "a guard stopped the job: {ranks:who} {ranks:holds|hold} other data: {detail}",
            ranks=error.ranks,
            detail=error.detail,
        ),
        ranks=error.ranks,
        nodes=hosts_of(facts, error.ranks),
        where=error.raised_at,
        because=(say("the ranks compared it with each other on the job's store"),),
        evidence=(error.evidence,),
        remedies=(remedy("give-every-rank-the-same-data-or"),),
    )
