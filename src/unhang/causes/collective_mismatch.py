"""collective-mismatch: ranks of one group issued different collectives at the same position.

What happens: operation, size, dtype or order differ: rank 0 reduces 2,626 numbers where the others reduce 2,625.
Why it hangs: the library pairs calls by order alone; each rank waits for partners that are in another call. NCCL hangs
or corrupts, Gloo may abort an innocent rank.
Example: a padded batch gathered without equal widths; a parameter missing on one rank; two calls in swapped order.
Fix: make the shapes equal before the call (pad, or gather sizes first); keep one order of calls on all ranks.
Certain when: the ranks' records line up at that position.
Possible when: some start later, so positions may be shifted; only stacks tell the operation; or the calls stand at
different lines and the source is not there to tell why.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.camps import Camp, camps_of_disagreement, camps_of_stall, past_and_inside
from unhang.facts.caught import caught_in_a_call
from unhang.facts.left_by_rank import left_by_rank
from unhang.facts.model import CodeContext, Disagreement, Facts, PendingCall, Stall
from unhang.facts.parted_ways import left_the_loop
from unhang.facts.progress_from_stacks import STACK_GROUP
from unhang.facts.roots import passed_by_some, rank_dependent_root
from unhang.findings import Cause, Certainty, Phase, Remedy, Text, say
from unhang.rules.evidence_lines import call_of, calls_of, group_label, hosts_of, quote_disagreement
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.COLLECTIVE_MISMATCH


def check(facts: Facts) -> Iterator[Answer]:
    """A disagreement that neither a branch on the rank nor the end of the loop explains."""
    bounded = {id(left.told_by) for left in left_by_rank(facts)}
    for disagreement in facts.disagreements:
        camps = camps_of_disagreement(facts, disagreement)
        if any(c.context is CodeContext.RANK_BRANCH for c in camps) or past_and_inside(camps) is not None:
            continue
        if left_the_loop(facts, camps) is not None or id(disagreement) in bounded:
            continue
        yield _found(facts, disagreement, camps)
    for symmetric in () if facts.graph.edges else facts.symmetric:
        first = symmetric.pending[symmetric.ranks[0]]
        root = rank_dependent_root(first.where, facts.sources)
        if root is not None:
            yield _other_root(facts, symmetric.ranks, symmetric.group, first, root)
    for stall in facts.stalls:
        passed = passed_by_some(facts, stall)
        root = rank_dependent_root(passed.where, facts.sources) if passed is not None else None
        if passed is not None and root is not None:
            yield _other_root(facts, stall.laggards, stall.group, passed, root, finished=True)
        if not facts.disagreements and facts.events_of("gloo.enforce") and caught_in_a_call(facts, stall):
            lag, wait = camps_of_stall(facts, stall)
            same_line = lag.where == wait.where  # then only sizes differ, and nothing tells whose is wrong
            branch = CodeContext.RANK_BRANCH in (lag.context, wait.context)
            explained = past_and_inside((wait, lag)) is not None or id(stall) in bounded
            if not same_line and not branch and not explained:
                yield _other_place(facts, stall, lag, wait)


def _other_root(
    facts: Facts, ranks: tuple[int, ...], group: str, first: PendingCall, root: str, *, finished: bool = False
) -> Answer:
    """All joined, and the line gives each rank another root: some wait for a sender that does not know it is one."""
    return finding(
        CAUSE,
        Certainty.LIKELY,
        say("ranks name different roots in {operation}: {root}", operation=first.operation, root=root),
        ranks=ranks,
        group=group_label(facts, group),
        phase=Phase.COMMUNICATION,
        where=first.where,
        waiter_where=first.where,
        calls=call_of(ranks, first),
        because=(
            say("{ranks:who} {ranks:is|are} in the call still, and others have finished it", ranks=ranks)
            if finished
            else say("all ranks joined the call and none finished it"),
            say("{root} depends on the rank, and all ranks must name the same one", root=root),
        ),
        evidence=tuple(
            progress.pending.evidence
            for rank in ranks[:2]
            if (progress := facts.groups[group].progress.get(rank)) is not None and progress.pending is not None
        ),
        remedies=(remedy("name-one-root-on-all-ranks"),),
    )


def _other_place(facts: Facts, stall: Stall, lag: Camp, wait: Camp) -> Answer:
    """Gloo ended a rank because sizes did not fit; those without a record stand in another call than the others."""
    return finding(
        CAUSE,
        Certainty.LIKELY,
        say(
            "{ranks:who} {ranks:is|are} in another call than the others: Gloo met sizes that differ",
            ranks=lag.ranks,
        ),
        ranks=lag.ranks,
        nodes=hosts_of(facts, lag.ranks),
        group=group_label(facts, stall.group),
        phase=lag.phase,
        where=lag.where,
        waiter_where=wait.where,
        calls=call_of(stall.direct_waiters, stall.call),
        because=(
            say("{ranks:who} left no record; the stack stands in a collective of another line", ranks=lag.ranks),
            say("which side went another way is not proven: look for a condition on data between these lines"),
        ),
        evidence=tuple(camp.evidence for camp in (lag, wait) if camp.evidence is not None),
        remedies=(_same_calls(),),
    )


def _same_calls() -> Remedy:
    return remedy("make-all-ranks-issue-the-same-collectives")


def _found(facts: Facts, disagreement: Disagreement, camps: tuple[Camp, ...]) -> Answer:
    ranks = disagreement.odd or tuple(sorted(rank for camp in camps for rank in camp.ranks))
    odd = next((c for c in camps if set(c.ranks) & set(ranks)), camps[0])
    other = next((c for c in camps if c is not odd), None)
    return finding(
        CAUSE,
        _certainty(facts, disagreement, camps),
        _summary(disagreement, ranks),
        ranks=ranks,
        nodes=hosts_of(facts, ranks),
        group=group_label(facts, disagreement.group),
        phase=odd.phase,
        where=odd.where,
        waiter_where=other.where if other is not None else None,
        calls=calls_of(disagreement),
        because=tuple(_because(facts, disagreement, camps)),
        evidence=quote_disagreement(disagreement),
        remedies=_remedies(disagreement),
    )


def _certainty(facts: Facts, disagreement: Disagreement, camps: tuple[Camp, ...]) -> Certainty:
    group = facts.groups.get(disagreement.group)
    progress = group.progress.values() if group is not None else ()
    if disagreement.group == STACK_GROUP and any(p.pending is None for p in progress):
        # Somebody is in no call at all: the others may wait for it in different groups, which stacks do not name.
        return Certainty.POSSIBLE
    if not disagreement.records_align or disagreement.aborted or _way_unknown(facts, camps):
        return Certainty.LIKELY
    heard = {rank for ranks in disagreement.calls.values() for rank in ranks}
    if not disagreement.odd and group is not None and set(group.members) - heard:
        # As many on one side as on the other, and the record that would decide is missing.
        return Certainty.LIKELY
    return Certainty.CERTAIN


def _way_unknown(facts: Facts, camps: tuple[Camp, ...]) -> bool:
    """Calls at different places, and of some rank no source: a loop that ended early or a branch may lead there."""
    places = {camp.where for camp in camps}
    activities = (facts.ranks[rank].activity for camp in camps for rank in camp.ranks if rank in facts.ranks)
    contexts = (*(camp.context for camp in camps), *(known.context for known in activities if known is not None))
    return len(places) > 1 and CodeContext.NO_SOURCE in contexts


def _summary(disagreement: Disagreement, ranks: tuple[int, ...]) -> Text:
    kinds = " and ".join(kind.replace("call-site", "line") for kind in disagreement.differs_in)
    if disagreement.group != STACK_GROUP and disagreement.odd and disagreement.differs_in == ("call-site",):
        return say(
            "from position {position} on {ranks:who} called from another line than the others, "
            "and then another operation",
            ranks=ranks,
            position=disagreement.position,
        )
    if disagreement.group == STACK_GROUP:
        return say(
            "{ranks:who} {ranks:stands|stand} in another call than the others, in the same group as far as can be told",
            ranks=ranks,
        )
    if disagreement.differs_in == ("bytes",):
        return say(
            "{ranks:who} called with fewer bytes than the others at position {position}: another size or dtype",
            ranks=ranks,
            position=disagreement.position,
        )
    if disagreement.odd:
        return say(
            "{ranks:who} called another {kinds} than the others at position {position}",
            ranks=ranks,
            kinds=kinds,
            position=disagreement.position,
        )
    return say(
        "{ranks:who} disagree in {kinds} at position {position}; which side is wrong cannot be told",
        ranks=ranks,
        kinds=kinds,
        position=disagreement.position,
    )


def _because(facts: Facts, disagreement: Disagreement, camps: tuple[Camp, ...]) -> Iterator[Text]:
    for signature, ranks in disagreement.calls.items():
        if not signature.input_elements and not signature.input_dtypes:  # a barrier, or a place in a log
            yield say("{ranks:who}: {operation}", ranks=ranks, operation=signature.operation)
            continue
        if not signature.input_dtypes:  # lines of logs name no dtype
            yield say(
                "{ranks:who}: {operation} of {elements} elements",
                ranks=ranks,
                operation=signature.operation,
                elements=signature.input_elements,
            )
            continue
        yield say(
            "{ranks:who}: {operation} of {elements} elements, {dtype}",
            ranks=ranks,
            operation=signature.operation,
            elements=signature.input_elements,
            dtype="/".join(dict.fromkeys(signature.input_dtypes)),
        )
    if disagreement.aborted:
        yield say(
            "{ranks:who} left no record: Gloo ended the process because more arrived than this call had asked for",
            ranks=disagreement.aborted,
        )
    places = {camp.where for camp in camps if camp.where is not None}
    if len(places) == 1:
        yield say("all ranks are at the same line: what they pass to it differs")
    if _way_unknown(facts, camps):
        yield say("the source was not in the evidence: a branch or the end of a loop may explain the other call")
    if not disagreement.records_align:
        yield say("some records start later than others, so positions may be shifted against each other")


def _remedies(disagreement: Disagreement) -> tuple[Remedy, ...]:
    if {"operation", "call-site"} & set(disagreement.differs_in):
        return (_same_calls(),)
    if "dtype" in disagreement.differs_in:
        return (_one_dtype(),)
    return (_equal_sizes(), _one_dtype()) if "bytes" in disagreement.differs_in else (_equal_sizes(),)


def _one_dtype() -> Remedy:
    return remedy("cast-to-one-dtype-before-the-call")


def _equal_sizes() -> Remedy:
    return remedy("make-the-sizes-equal-before-the-call")
