"""collective-mismatch: ranks of one group issued different collectives at the same position.

What happens: operation, size, dtype or order differ: rank 0 reduces 2,626 numbers where the others reduce 2,625.
Why it hangs: the library pairs calls by order alone; each rank waits for partners that are in another call. NCCL hangs
or corrupts, Gloo may abort an innocent rank. Where bytes fit, nothing stops: the job goes on with wrong results.
Example: a padded batch gathered without equal widths; a parameter missing on one rank; two calls in swapped order.
Fix: make the shapes equal before the call (pad, or gather sizes first); keep one order of calls on all ranks.
Certain when: the ranks' records line up at that position.
Possible when: only stacks tell the operation, and somebody is in no call; likely where some records start later, so
that positions may be shifted, or the calls stand at different lines and the source is not there to tell why.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import calls_of_mismatch, group_label, hosts_of, quote_mismatch, waiters_call
from unhang.causes.wording.cohort_signal import cohort_parts, grade_of_group
from unhang.facts.divergence.aborted_in_call import gloo_sizes_differ, laggards_wait_elsewhere
from unhang.facts.model import AllJoinedStall, CallMismatch, CodeContext, Facts, Stall
from unhang.facts.stacks.rank_cohorts import (
    RankCohort,
    cohort_outside_library,
    cohort_past_shared_call,
    cohorts_of_mismatch,
    cohorts_of_stall,
)
from unhang.facts.waiting.concurrent_collectives import concurrent_collectives
from unhang.facts.waiting.progress_from_stacks import STACK_GROUP
from unhang.findings import Cause, Grade, Phase, Remedy, Severity
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, say

CAUSE = Cause.COLLECTIVE_MISMATCH
_MAX_TOLD = 8


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Calls that differ, sizes that do not fit, and what Gloo says of ranks without a record."""
    threads = concurrent_collectives(facts)
    for mismatch in facts.mismatches:
        if threads is None or threads.group != mismatch.group:  # else the two calls are of two threads
            yield _found(facts, mismatch)
    for mismatch in facts.nonfatal_mismatches:
        if mismatch.differs_in:
            yield _found(facts, mismatch, went_on=True)
    for symmetric in facts.all_joined_stalls:
        yield from _split_sizes(facts, symmetric)
    for stall in facts.stalls:
        yield from _of_stall(facts, stall)


def _of_stall(facts: Facts, stall: Stall) -> Iterator[DetectorResult]:
    if stall.call is not None and stall.call.operation == "new_group":
        yield from _one_group_more(facts, stall)
    if not facts.mismatches and gloo_sizes_differ(facts) and laggards_wait_elsewhere(facts, stall):
        laggards, waiters = cohorts_of_stall(facts, stall)
        if laggards.where != waiters.where:  # at one line only sizes differ, and nothing tells whose is wrong
            yield _other_place(facts, stall, laggards, waiters)


def _other_place(facts: Facts, stall: Stall, laggards: RankCohort, waiters: RankCohort) -> DetectorResult:
    """Gloo ended a rank because sizes did not fit; those without a record stand in another call than the others."""
    return make_signal(
        CAUSE,
        Grade.STACK,
        say(
            "{ranks:who} {ranks:is|are} in another call than the others: Gloo met sizes that differ",
            ranks=laggards.ranks,
        ),
        **cohort_parts(facts, laggards, waiters, stall.group),
        calls=waiters_call(stall.direct_waiters, stall.call),
        because=(
            say("{ranks:who} left no record; the stack stands in a collective of another line", ranks=laggards.ranks),
            say("which side went another way is not proven: look for a condition on data between these lines"),
        ),
        remedies=(remedy("issue-same-collectives"),),
    )


def _split_sizes(facts: Facts, stall: AllJoinedStall) -> Iterator[DetectorResult]:
    """All are in one exchange of parts, and together they expect another number of elements than they send."""
    calls = {rank: stall.pending[rank] for rank in stall.ranks if rank in stall.pending}
    known = [c for c in calls.values() if c.elements is not None and c.output_elements is not None]
    if not stall.operation.startswith("all_to_all") or len(known) != len(facts.groups[stall.group].members):
        return
    sent, wanted = sum(c.elements or 0 for c in known), sum(c.output_elements or 0 for c in known)
    if sent == wanted:
        return
    first = known[0]
    yield make_signal(
        CAUSE,
        Grade.RECORD,
        say(
            "the split sizes of {operation} do not fit: all ranks together send {sent} elements and expect {wanted}",
            operation=stall.operation,
            sent=sent,
            wanted=wanted,
        ),
        ranks=stall.ranks,
        group=group_label(facts, stall.group),
        phase=Phase.COMMUNICATION,
        where=first.where,
        waiter_where=first.where,
        calls=tuple(call for rank, c in calls.items() for call in waiters_call((rank,), c)),
        because=tuple(
            say(
                "rank {rank} sends {sent} elements and expects {wanted}",
                rank=rank,
                sent=c.elements,
                wanted=c.output_elements,
            )
            for rank, c in list(calls.items())[:_MAX_TOLD]
        ),
        evidence=tuple(c.evidence for c in known[:_MAX_TOLD]),
        remedies=(remedy("exchange-split-sizes"),),
    )


def _one_group_more(facts: Facts, stall: Stall) -> Iterator[DetectorResult]:
    """Every rank of the job must come to each new_group; those awaited are in a collective already."""
    laggards, waiters = cohorts_of_stall(facts, stall)
    if laggards.phase is not Phase.COMMUNICATION or waiters.context is CodeContext.RANK_BRANCH:
        return
    more, fewer = (waiters, laggards) if len(waiters.ranks) <= len(laggards.ranks) else (laggards, waiters)
    yield make_signal(
        CAUSE,
        Grade.STACK,
        say(
            "ranks make different numbers of groups: {wait:who} {wait:makes|make} one more, and {lag:who} "
            "{lag:has|have} gone on to a collective",
            wait=waiters.ranks,
            lag=laggards.ranks,
        ),
        **cohort_parts(facts, more, fewer, stall.group),
        calls=waiters_call(waiters.ranks, stall.call),
        because=(
            say("new_group returns only when every rank of the job has come to it, members or not"),
            say(
                "neither side moves: {lag:who} {lag:is|are} past the last group of {lag:its|their} own",
                lag=laggards.ranks,
            ),
        ),
        remedies=(remedy("create-groups-everywhere"),),
    )


def _found(facts: Facts, mismatch: CallMismatch, *, went_on: bool = False) -> DetectorResult:
    cohorts = cohorts_of_mismatch(facts, mismatch)
    place = None if mismatch.outliers else cohort_outside_library(cohorts)
    below = None if mismatch.outliers or place is not None else cohort_past_shared_call(facts, cohorts)
    place = below[0] if below is not None else place
    ranks = mismatch.outliers or (
        place.ranks if place is not None else tuple(sorted(r for c in cohorts for r in c.ranks))
    )
    odd = next((c for c in cohorts if set(c.ranks) & set(ranks)), cohorts[0])
    other = next((c for c in cohorts if c is not odd), None)
    aligned, summary = mismatch.records_align, _summary(mismatch, ranks)
    parts = cohort_parts(facts, odd, other, mismatch.group) | {
        "ranks": ranks,
        "nodes": hosts_of(facts, ranks),
        "phase": Phase.COMMUNICATION if went_on else odd.phase,
        "evidence": quote_mismatch(mismatch),
    }
    return make_signal(
        CAUSE,
        Grade.RECORD if went_on else grade_of_group(facts, mismatch.group),
        say("{told}, and the job went on: results are wrong", told=summary) if went_on else summary,
        whole=aligned if went_on else place is None and _is_whole(facts, mismatch, cohorts),
        severity=Severity.SLOWS if went_on else Severity.STOPS,
        **parts,
        calls=calls_of_mismatch(mismatch),
        because=(
            *_because(facts, mismatch, cohorts, went_on=went_on),
            *(_passed_call(below[0], below[1]) if below is not None else ()),
        ),
        remedies=(remedy("stop-and-equalize-calls"),) if went_on else _remedies(mismatch),
    )


def _is_whole(facts: Facts, mismatch: CallMismatch, cohorts: tuple[RankCohort, ...]) -> bool:
    group = facts.groups.get(mismatch.group)
    if grade_of_group(facts, mismatch.group) is Grade.STACK:
        # Where somebody is in no call at all, others may wait for it in different groups, which stacks do not name.
        progress = group.progress.values() if group is not None else ()
        return mismatch.group != STACK_GROUP or all(p.pending is not None for p in progress)
    if not mismatch.records_align or mismatch.aborted or _is_path_unknown(facts, cohorts):
        return False
    heard = {rank for ranks in mismatch.calls.values() for rank in ranks}
    # With as many on one side as on the other, the record that is missing would decide.
    return bool(mismatch.outliers) or group is None or not set(group.members) - heard


def _is_path_unknown(facts: Facts, cohorts: tuple[RankCohort, ...]) -> bool:
    """Calls at different places, and of some rank no source: a loop that ended early or a branch may lead there."""
    places = {cohort.where for cohort in cohorts}
    activities = (facts.ranks[rank].activity for cohort in cohorts for rank in cohort.ranks if rank in facts.ranks)
    contexts = (*(cohort.context for cohort in cohorts), *(known.context for known in activities if known is not None))
    return len(places) > 1 and CodeContext.NO_SOURCE in contexts


def _summary(mismatch: CallMismatch, ranks: tuple[int, ...]) -> Text:
    kinds = " and ".join(kind.replace("call-site", "line") for kind in mismatch.differs_in)
    if mismatch.group != STACK_GROUP and mismatch.outliers and mismatch.differs_in == ("call-site",):
        return say(
            "from position {position} on {ranks:who} called from another line than the others, "
            "and then another operation",
            ranks=ranks,
            position=mismatch.position,
        )
    if mismatch.group == STACK_GROUP:
        return say(
            "{ranks:who} {ranks:stands|stand} in another call than the others, in the same group as far as can be told",
            ranks=ranks,
        )
    if mismatch.differs_in == ("bytes",):
        return say(
            "{ranks:who} called with fewer bytes than the others at position {position}: another size or dtype",
            ranks=ranks,
            position=mismatch.position,
        )
    if mismatch.outliers or len(ranks) < sum(map(len, mismatch.calls.values())):
        return say(
            "{ranks:who} called another {kinds} than the others at position {position}",
            ranks=ranks,
            kinds=kinds,
            position=mismatch.position,
        )
    return say(
        "{ranks:who} disagree in {kinds} at position {position}; which side is wrong cannot be told",
        ranks=ranks,
        kinds=kinds,
        position=mismatch.position,
    )


def _because(facts: Facts, mismatch: CallMismatch, cohorts: tuple[RankCohort, ...], *, went_on: bool) -> Iterator[Text]:
    for signature, ranks in mismatch.calls.items():
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
    if mismatch.aborted:
        yield say(
            "{ranks:who} left no record: Gloo ended the process because more arrived than this call had asked for",
            ranks=mismatch.aborted,
        )
    if went_on:
        if mismatch.times > 1:
            yield say("so far it happened at {times} recorded positions", times=mismatch.times)
        yield say("nothing stops there: the library moves bytes, and these fit or nearly fit")
    elif len({cohort.where for cohort in cohorts if cohort.where is not None}) == 1:
        yield say("all ranks are at the same line: what they pass to it differs")
    if not went_on and _is_path_unknown(facts, cohorts):
        yield say("the source was not in the evidence: a branch or the end of a loop may explain the other call")
    if not mismatch.records_align:
        yield say("some records start later than others, so positions may be shifted against each other")


def _passed_call(cohort: RankCohort, line: int) -> Iterator[Text]:
    yield say(
        "{ranks:who} {ranks:has|have} come through the call at line {line}, in which the others still are",
        ranks=cohort.ranks,
        line=line,
    )


def _remedies(mismatch: CallMismatch) -> tuple[Remedy, ...]:
    if {"operation", "call-site"} & set(mismatch.differs_in):
        return (remedy("issue-same-collectives"),)
    sizes, dtypes = remedy("equalize-sizes"), remedy("cast-to-one-dtype")
    if "dtype" in mismatch.differs_in:
        return (dtypes,)
    return (sizes, dtypes) if "bytes" in mismatch.differs_in else (sizes,)
