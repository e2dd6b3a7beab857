"""collective-mismatch: one call, and another root on each rank: a broadcast whose sender is somebody else each time.

What happens: all ranks are in one broadcast, reduce, gather or scatter, and do not name the same root.
Why it hangs: each waits for a sender that does not know it is one; no record tells which root a rank named.
Example: `dist.broadcast(x, src=best)`, where `best` is the rank with the best score that this rank knows of.
Fix: name one root everywhere; where it has to be worked out, one rank does and tells the others first.
Certain when: never; the roots themselves are not recorded.
Possible when: likely, where the source lets the root depend on the rank, or on one machine with Gloo where every rank
works it out by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import group_label, waiters_call
from unhang.facts.alignment.broadcast_roots import computed_root, partly_finished_call, rank_dependent_root
from unhang.facts.model import AllJoinedStall, Facts, PendingCall
from unhang.findings import Cause, Grade, Phase
from unhang.knowledge.remedies import remedy
from unhang.sentences import say

CAUSE = Cause.COLLECTIVE_MISMATCH


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Calls that all joined, and calls that some have finished and others are in still."""
    for symmetric in () if facts.graph.edges else facts.all_joined_stalls:
        first = symmetric.pending[symmetric.ranks[0]]
        root = rank_dependent_root(first.where, facts.sources)
        computed = computed_root(first.where, facts.sources) if _carried_inside_one_machine(facts) else None
        if root is not None:
            yield _rank_dependent_root(facts, symmetric.ranks, symmetric.group, first, root)
        elif computed is not None:
            yield _computed_root(facts, symmetric, first, computed)
    for stall in facts.stalls:
        passed = partly_finished_call(facts, stall)
        root = rank_dependent_root(passed.where, facts.sources) if passed is not None else None
        if passed is not None and root is not None:
            yield _rank_dependent_root(facts, stall.laggards, stall.group, passed, root, finished=True)


def _carried_inside_one_machine(facts: Facts) -> bool:
    """By Gloo, whose connections inside a machine do not fail by themselves."""
    recordings = [known.recording for known in facts.ranks.values()]
    hosts = {known.host for known in facts.ranks.values()}
    return len(hosts) == 1 and all(one is not None and one.backend == "gloo" for one in recordings)


def _rank_dependent_root(
    facts: Facts, ranks: tuple[int, ...], group: str, first: PendingCall, root: str, *, finished: bool = False
) -> DetectorResult:
    """All joined, and the line gives each rank another root: some wait for a sender that does not know it is one."""
    return make_signal(
        CAUSE,
        Grade.SOURCE,
        say("ranks name different roots in {operation}: {root}", operation=first.operation, root=root),
        whole=False,  # no record tells which root each rank named
        ranks=ranks,
        group=group_label(facts, group),
        phase=Phase.COMMUNICATION,
        where=first.where,
        waiter_where=first.where,
        calls=waiters_call(ranks, first),
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
        remedies=(remedy("use-one-root"),),
    )


def _computed_root(facts: Facts, stall: AllJoinedStall, first: PendingCall, root: str) -> DetectorResult:
    return make_signal(
        CAUSE,
        Grade.STACK,
        say(
            "all ranks are in {operation} and none finished it: they may name different roots ({root})",
            operation=first.operation,
            root=root,
        ),
        ranks=stall.ranks,
        group=group_label(facts, stall.group),
        phase=Phase.COMMUNICATION,
        where=first.where,
        waiter_where=first.where,
        calls=waiters_call(stall.ranks, first),
        because=(
            say("every rank works the root out by itself, and nothing shows that all come to the same"),
            say("nothing between the ranks can fail on the way: they are on one machine, and use Gloo"),
        ),
        evidence=tuple(stall.pending[rank].evidence for rank in stall.ranks[:2]),
        remedies=(remedy("use-one-root"),),
    )
