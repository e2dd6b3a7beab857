"""rank-conditional-collective: a guard gave up because some ranks never came to it.

What happens: `unhang.together` or another guard waited for ranks that took another way through the program.
Why it hangs: without the guard the ranks would wait in a collective for each other until the watchdog's limit.
Example: `if rank == 0: evaluate(model)`; rank 0 gets `RanksMissing: together('evaluation') …: rank 1 did not come`.
Fix: let every rank get there; put the branch inside.
Certain when: the error shows the line of the program that lets only some ranks through.
Possible when: it does not, and ranks may have left a loop early or be late; likely then.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.crashes import own_crashes
from unhang.facts.guard_errors import GuardError, guard_errors
from unhang.facts.model import Facts
from unhang.findings import Cause, Certainty, say
from unhang.rules.evidence_lines import hosts_of
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.RANK_CONDITIONAL_COLLECTIVE


def check(facts: Facts) -> Iterator[Answer]:
    """Errors of guards to which ranks did not come, unless those ranks failed by themselves."""
    fallen = {crash.rank for crash in own_crashes(facts)}
    for error in guard_errors(facts.tracebacks):
        died = error.partner_died or None in fallen or bool(fallen & set(error.ranks))
        if error.kind in ("missing", "apart") and not died:
            yield _found(facts, error)
            return


def _found(facts: Facts, error: GuardError) -> Answer:
    alone = error.came if error.came and len(error.came) <= len(error.ranks) else error.ranks
    return finding(
        CAUSE,
        Certainty.CERTAIN if error.branch is not None else Certainty.LIKELY,
        say(
            "{ranks:who} took another way than the others, who came to {guard} or wait elsewhere",
            ranks=alone,
            guard=error.what,
        )
        if error.kind == "apart" or alone == error.ranks
        else say("{ranks:who} came alone to {guard}; the other ranks took another way", ranks=alone, guard=error.what),
        ranks=alone,
        nodes=hosts_of(facts, alone),
        where=error.raised_at,
        because=(say("the program lets only some ranks through: {test}", test=error.test),) if error.test else (),
        evidence=(error.evidence,),
        remedies=(remedy("let-every-rank-get-to", guard=error.what),),
    )
