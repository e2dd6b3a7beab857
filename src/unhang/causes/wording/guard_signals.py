"""What errors of guards tell, each of which states a cause in so many words."""

from __future__ import annotations

from unhang.causes.detector import Signal, make_signal
from unhang.facts.endings.guard_errors import ParsedGuardError
from unhang.findings import Cause, Grade
from unhang.knowledge.remedies import remedy
from unhang.sentences import say


def took_another_way(cause: Cause, error: ParsedGuardError) -> Signal:
    """Some did not come to the guard."""
    said = error.said
    alone = said.came if said.came and len(said.came) <= len(said.ranks) else said.ranks
    return make_signal(
        cause,
        Grade.STATED,
        say(
            "{ranks:who} took another way than the others, who came to {guard} or wait elsewhere",
            ranks=alone,
            guard=said.what,
        )
        if said.kind == "apart" or alone == said.ranks
        else say("{ranks:who} came alone to {guard}; the other ranks took another way", ranks=alone, guard=said.what),
        whole=said.branch is not None,
        ranks=alone,
        where=error.raised_at,
        because=(say("the program lets only some ranks through: {test}", test=said.test),) if said.test else (),
        evidence=(error.evidence,),
        remedies=(remedy("enter-guard-everywhere", guard=said.what),),
    )


def hold_other_data(cause: Cause, error: ParsedGuardError) -> Signal:
    """The guard compared data, or counted batches."""
    return make_signal(
        cause,
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


def still_at_work(cause: Cause, error: ParsedGuardError) -> Signal:
    """Ranks waited in `rank_zero_first`, and the first rank was still at work when the time given was over."""
    return make_signal(
        cause,
        Grade.STATED,
        say(
            "{ranks:who} {ranks:was|were} still at work after {waited:.0f} s, and the others in {guard} gave up",
            ranks=error.said.ranks,
            waited=error.said.waited_s,
            guard=error.said.what,
        ),
        whole=error.seen_at is not None,  # the line at which it was last seen, working
        ranks=error.said.ranks,
        where=error.seen_at,
        waiter_where=error.raised_at,
        evidence=(error.evidence,),
        remedies=(remedy("extend-guard-timeout", guard=error.said.what),),
    )
