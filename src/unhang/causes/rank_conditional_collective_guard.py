"""rank-conditional-collective: a rank waits in a guard for others that are in a collective and wait for it there.

What happens: one rank calls `unhang.together`, `same_on_all_ranks` or another guard where the others go on training.
Why it hangs: the guard waits for the others, and they wait for it in their next collective.
Example: `if rank == 0: save(model)`, with `unhang.together("save")` inside `save`; or a barrier inside the block of
`unhang.rank_zero_first`, in which one rank is alone.
Fix: call the guard on every rank, and no collective inside `rank_zero_first`; a guard raises by itself after its limit.
Certain when: the call of the guard lies in a branch on the rank in the program's source.
Possible when: there is no such branch: the ranks may have come apart in another way, such as one batch less.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.camps import Camp, camps_of_stall, is_past
from unhang.facts.guard_waits import GUARD_WAIT, guard_of
from unhang.facts.model import CodeContext, Facts, Stall
from unhang.findings import Cause, Certainty, Remedy, Text, say
from unhang.rules.evidence_lines import call_of, group_label, hosts_of, operation_of
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.RANK_CONDITIONAL_COLLECTIVE
FIRST = "unhang.rank_zero_first"


def check(facts: Facts) -> Iterator[Answer]:
    """Laggards that stand in a guard, while those who wait for them stand in a collective."""
    for stall in facts.stalls:
        lag, wait = camps_of_stall(facts, stall)
        if lag.what != GUARD_WAIT or is_past(lag, wait):
            continue
        yield _inside(facts, stall, lag, wait) if _is_inside(facts, lag, wait) else _found(facts, stall, lag, wait)


def _is_inside(facts: Facts, lag: Camp, wait: Camp) -> bool:
    """Those in the collective are the ones that work in the block of the guard in which the others wait."""
    if not guard_of(facts.ranks[lag.ranks[0]]).startswith(FIRST):
        return False
    if any(facts.ranks[rank].marked is not None for rank in wait.ranks):
        return True
    here, there = lag.where, wait.where
    if here is None or there is None or here.line is None or there.line is None:
        return False
    return here.file == there.file and there.line > here.line


def _inside(facts: Facts, stall: Stall, lag: Camp, wait: Camp) -> Answer:
    """The few inside are the odd ones: they call what the others cannot join."""
    guard = guard_of(facts.ranks[lag.ranks[0]])
    summary = say(
        "{ranks:who} {ranks:calls|call} {operation} inside {guard}; the others wait for the end of that block",
        ranks=wait.ranks,
        operation=operation_of(stall.call),
        guard=guard,
    )
    because = (say("{ranks:who} {ranks:waits|wait} in {guard} and cannot join", ranks=lag.ranks, guard=guard),)
    return _answer(facts, stall, (wait, lag), Certainty.LIKELY, summary, because, _out_of_the_block())


def _out_of_the_block() -> Remedy:
    return remedy("move-the-collective-out-of-the-block")


def _found(facts: Facts, stall: Stall, lag: Camp, wait: Camp) -> Answer:
    in_branch = lag.context is CodeContext.RANK_BRANCH
    guard = guard_of(facts.ranks[lag.ranks[0]])
    summary = say(
        "{ranks:who} {ranks:waits|wait} in {guard} for ranks that are in {operation} and wait for it there",
        ranks=lag.ranks,
        guard=guard,
        operation=operation_of(stall.call),
    )
    because = [say("only {ranks:who} {ranks:calls|call} {guard} here", ranks=lag.ranks, guard=guard)]
    if in_branch and lag.branch_line is not None:
        because.append(say("the way to it leads through the branch on the rank at line {line}", line=lag.branch_line))
    certainty = Certainty.CERTAIN if in_branch else Certainty.LIKELY
    return _answer(facts, stall, (lag, wait), certainty, summary, tuple(because), _on_every_rank(guard))


def _answer(
    facts: Facts,
    stall: Stall,
    camps: tuple[Camp, Camp],
    certainty: Certainty,
    summary: Text,
    because: tuple[Text, ...],
    remedy: Remedy,
) -> Answer:
    """``camps``: the odd ones, and those who wait for them."""
    odd, others = camps
    return finding(
        CAUSE,
        certainty,
        summary,
        ranks=odd.ranks,
        nodes=hosts_of(facts, odd.ranks),
        group=group_label(facts, stall.group),
        phase=odd.phase,
        where=odd.where,
        waiter_where=others.where,
        calls=call_of(stall.direct_waiters, stall.call),
        because=because,
        evidence=tuple(camp.evidence for camp in camps if camp.evidence is not None),
        remedies=(remedy,),
    )


def _on_every_rank(guard: str) -> Remedy:
    return remedy("call-on-every-rank-outside-of-any", guard=guard)
