"""single-rank-work: a guard gave up waiting for the rank that does the work first.

What happens: ranks waited in `rank_zero_first` and the first rank was still at work when the time given was over.
Why it hangs: without the guard the others would wait in a barrier until the watchdog's limit.
Example: `RankFailed: rank_zero_first('tokenisation') …: rank 0 is not done after 600 s, last seen at data.py:31`.
Fix: give it more time, or do the work once beforehand.
Certain when: the error tells the line at which the rank was last seen, working.
Possible when: never; likely without that line.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.guard_errors import GuardError, guard_errors
from unhang.facts.model import Facts
from unhang.findings import Cause, Certainty, say
from unhang.rules.evidence_lines import hosts_of
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.SINGLE_RANK_WORK


def check(facts: Facts) -> Iterator[Answer]:
    """Errors of ranks for which the first one took too long."""
    for error in guard_errors(facts.tracebacks):
        if error.kind == "slow":
            yield _found(facts, error)
            return


def _found(facts: Facts, error: GuardError) -> Answer:
    return finding(
        CAUSE,
        Certainty.CERTAIN if error.at is not None else Certainty.LIKELY,
        say(
            "{ranks:who} {ranks:was|were} still at work after {waited:.0f} s, and the others in {guard} gave up",
            ranks=error.ranks,
            waited=error.waited_s,
            guard=error.what,
        ),
        ranks=error.ranks,
        nodes=hosts_of(facts, error.ranks),
        where=error.at,
        waiter_where=error.raised_at,
        evidence=(error.evidence,),
        remedies=(remedy("give-the-time-the-work-takes", guard=error.what),),
    )
