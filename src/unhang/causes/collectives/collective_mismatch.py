"""collective-mismatch: ranks of one group issued different collectives at the same position.

What happens: operation, size, dtype or order differ: rank 0 reduces 2,626 numbers, the other ranks reduce 2,625.
Why it hangs: the library pairs calls by order alone, so each rank waits for partners in another call. NCCL hangs or
corrupts data, Gloo may abort an innocent rank. Where bytes match, nothing stops: the job goes on with wrong results.
Example: padded batches gathered at unequal widths; a parameter missing on one rank; two calls in swapped order.
Fix: make the shapes equal before the call (pad, or gather the sizes first); keep one order of calls on all ranks.
Certain when: the ranks' records can be aligned at that position.
Likely when: some records start later, so positions may be shifted; or the calls' lines differ and no source says why.
Possible when: only stacks show the operations, and some rank is in no call.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import (
    calls_of_mismatch,
    group_label,
    hosts_of,
    place_of,
    quote_mismatch,
    waiters_call,
)
from unhang.causes.wording.mismatch_reasons import (
    call_in_every_round,
    falls_of_others,
    fingerprint_reasons,
    mismatch_reasons,
    mismatch_remedies,
    mismatch_summary,
    thread_name,
    thread_reasons,
    two_sides,
    ways_around_line,
    ways_around_one_line,
    what_would_settle,
)
from unhang.causes.wording.path_reasons import call_reasons, line_of_some, unmatched_parts, unmatched_summary
from unhang.causes.wording.signals import cohort_parts, grade_of_group
from unhang.evidence.items import LogEvent
from unhang.facts.alignment.broadcast_roots import DifferingRoots, differing_roots
from unhang.facts.alignment.collective_fingerprints import FingerprintMismatch, fingerprint_mismatch
from unhang.facts.divergence.aborted_in_call import ended_by_gloo, gloo_sizes_differ, laggards_wait_elsewhere
from unhang.facts.divergence.other_ways import call_of_some, other_ways
from unhang.facts.divergence.skipped_calls import unmatched_p2p
from unhang.facts.endings.traceback_echoes import is_echo
from unhang.facts.laggard.laggards import Laggards, MadeFewerGroups, laggards_doing, laggards_of
from unhang.facts.logs.event_timing import EventTiming, timing_of
from unhang.facts.logs.log_statements import first_attempt, quote_events
from unhang.facts.logs.logged_values import differing_parameters, outlier_models, parameter_counts
from unhang.facts.machine.ambiguous_errors import ranks_of_last_errors
from unhang.facts.model import AllJoinedStall, CallMismatch, Facts
from unhang.facts.stacks.rank_cohorts import (
    RankCohort,
    cohort_outside_library,
    cohort_past_shared_call,
    cohorts_of_mismatch,
    is_path_unknown,
)
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.facts.waiting.concurrent_collectives import concurrent_collectives
from unhang.facts.waiting.progress_from_stacks import STACK_GROUP
from unhang.findings import Call, Cause, Evidence, Grade, Phase, Severity
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences
from unhang.sentences import Text

CAUSE = Cause.COLLECTIVE_MISMATCH
tell = Sentences("causes/collective-mismatch.toml")
_MAX_TOLD = 8


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Calls that differ, sizes that do not fit, and what Gloo says of ranks without a record."""
    threads = concurrent_collectives(facts)
    elsewhere = [way.mismatch for way in other_ways(facts)]  # no matter of arguments
    for mismatch in facts.mismatches:
        two_threads = threads is not None and threads.group == mismatch.group
        if not two_threads and mismatch not in elsewhere:
            yield _found(facts, mismatch)
    for mismatch in facts.nonfatal_mismatches:
        if mismatch.differs_in:
            yield _found(facts, mismatch, went_on=True)
    yield from (found for joined in facts.all_joined_stalls for found in _split_sizes(facts, joined))
    yield from (_one_group_more(facts, at) for at, _ in laggards_doing(facts, MadeFewerGroups))
    yield from (_other_place(facts, at) for at in _in_other_places(facts))


def _in_other_places(facts: Facts) -> Iterator[Laggards]:
    """Those without a record in another call, where Gloo met sizes that differ; at one line nothing tells whose."""
    for at in laggards_of(facts) if gloo_sizes_differ(facts) and not facts.mismatches else ():
        if at.cohort.where != at.waiters.where and laggards_wait_elsewhere(facts, at.stall):
            yield at


def _other_place(facts: Facts, at: Laggards) -> DetectorResult:
    """Gloo ended a rank because sizes did not fit; those without a record stand in another call than the others."""
    stall, laggards, waiters = at.stall, at.cohort, at.waiters
    return make_signal(
        Grade.STACK,
        tell("other-call", ranks=laggards.ranks),
        **cohort_parts(facts, laggards, waiters, stall.group),
        calls=waiters_call(stall.direct_waiters, stall.call),
        because=(tell("gloo-no-record", ranks=laggards.ranks), tell("side-not-proven")),
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
        Grade.RECORD,
        tell("split-sizes", operation=stall.operation, sent=sent, wanted=wanted),
        ranks=stall.ranks,
        group=group_label(facts, stall.group),
        phase=Phase.COMMUNICATION,
        where=first.where,
        waiter_where=first.where,
        calls=tuple(call for rank, c in calls.items() for call in waiters_call((rank,), c)),
        because=tuple(
            tell("rank-sends", rank=rank, sent=c.elements, wanted=c.output_elements)
            for rank, c in list(calls.items())[:_MAX_TOLD]
        ),
        evidence=tuple(c.evidence for c in known[:_MAX_TOLD]),
        remedies=(remedy("exchange-split-sizes"),),
    )


def _one_group_more(facts: Facts, at: Laggards) -> DetectorResult:
    """Every rank of the job must come to each new_group; the others are in a collective already. Under a test on
    data it is a call that only some make, else the few are odd."""
    making, others = (at.cohort, at.waiters) if at.cohort.what == "group-setup" else (at.waiters, at.cohort)
    call = call_of_some(facts, making, others)
    alone = bool(call.around) or len(making.ranks) <= len(others.ranks)
    told = line_of_some(facts, call, making.ranks, others.ranks) if call.around else None
    return make_signal(
        Grade.STACK,
        told or tell("groups-differ", wait=making.ranks, lag=others.ranks),
        cause=Cause.RANK_CONDITIONAL_COLLECTIVE if told is not None else None,
        **cohort_parts(facts, *((making, others) if alone else (others, making)), at.stall.group),
        calls=waiters_call(at.waiters.ranks, at.stall.call),
        because=(
            tell("group-needs-everyone"),
            *(call_reasons(call, skipped=False) if told is not None else ()),
            tell("past-last-group", lag=others.ranks),
        ),
        remedies=(remedy("create-groups-everywhere"),),
    )


def _found(facts: Facts, mismatch: CallMismatch, *, went_on: bool = False) -> DetectorResult:
    cohorts = cohorts_of_mismatch(facts, mismatch, went_on=went_on)
    place = None if mismatch.outliers else cohort_outside_library(facts, cohorts)
    below = None if mismatch.outliers or place is not None else cohort_past_shared_call(facts, cohorts)
    place = below[0] if below is not None else place
    ranks = mismatch.outliers or (
        place.ranks if place is not None else tuple(sorted(r for c in cohorts for r in c.ranks))
    )
    odd = next((c for c in cohorts if set(c.ranks) & set(ranks)), cohorts[0])
    other = next((c for c in cohorts if c is not odd), None)
    aligned, summary = mismatch.records_align, mismatch_summary(mismatch, ranks)
    around = ways_around_one_line(facts, mismatch, cohorts)
    parts = cohort_parts(facts, odd, other, mismatch.group) | {
        "ranks": ranks,
        "nodes": hosts_of(facts, ranks),
        "phase": Phase.COMMUNICATION if went_on else odd.phase,
        "evidence": quote_mismatch(mismatch),
    }
    return make_signal(
        Grade.RECORD if went_on else grade_of_group(facts, mismatch.group),
        tell("went-on", told=summary) if went_on else summary,
        whole=aligned if went_on else place is None and _is_whole(facts, mismatch, cohorts),
        severity=Severity.SLOWS if went_on else Severity.STOPS,
        **parts,
        calls=calls_of_mismatch(mismatch),
        because=tuple(
            mismatch_reasons(
                mismatch, cohorts, below, around, went_on=went_on, path_unknown=is_path_unknown(facts, cohorts)
            )
        ),
        remedies=(remedy("stop-and-equalize-calls"),)
        if went_on
        else (*what_would_settle(facts, mismatch), *mismatch_remedies(mismatch, cohorts, around)),
    )


def _is_whole(facts: Facts, mismatch: CallMismatch, cohorts: tuple[RankCohort, ...]) -> bool:
    group = facts.groups.get(mismatch.group)
    if grade_of_group(facts, mismatch.group) is Grade.STACK:
        # Where somebody is in no call at all, others may wait for it in different groups, which stacks do not name.
        progress = group.progress.values() if group is not None else ()
        return mismatch.group != STACK_GROUP or all(p.pending is not None for p in progress)
    if not mismatch.records_align or mismatch.aborted or is_path_unknown(facts, cohorts):
        return False
    heard = {rank for ranks in mismatch.calls.values() for rank in ranks}
    # With as many on one side as on the other, the record that is missing would decide.
    return bool(mismatch.outliers) or group is None or not set(group.members) - heard


# ---------------------------------------------------------------------------------------------------
# sends and receives


def detect_partners(facts: Facts) -> Iterator[DetectorResult]:
    """Of sends and receives: partners that went on, where no loop makes the numbers of rounds differ: `dist.recv(scale,
    src=0)` on rank 1 for which rank 0 has no `dist.send`. Never certain: Gloo counts no sends."""
    for found in unmatched_p2p(facts):
        if not found.in_a_loop:
            yield make_signal(Grade.SOURCE, unmatched_summary(found), **unmatched_parts(facts, found))


# ---------------------------------------------------------------------------------------------------
# lines alone


def detect_printed(facts: Facts) -> Iterator[DetectorResult]:
    """From lines alone: printed fingerprints (rank 0 gathers `[41, 256]` where rank 1 gathers `[40, 256]`, both at
    sequence number 0), then what torch's own checks, DDP and Gloo say. Of NCCL's truncated message only one that came
    after steps: before them versions and strangers cause it too (`unknown`)."""
    printed = fingerprint_mismatch(facts)
    if printed is not None and printed.differs_in and not printed.unposted:
        yield _found_printed(facts, printed)
    named = first_attempt(facts.events_of("fr.culprit", "fsdp.order"))
    if named:
        ranks = tuple(sorted({r for e in named if isinstance(r := e.values.get("rank"), int)}))
        yield _plain(tell("torch-says", ranks=ranks), quote_events(named), ranks)
    sizes = first_attempt(facts.events_of("gloo.enforce"))
    if (model := _other_model(facts)) is not None:
        yield model
    elif sizes and not facts.mismatches and not any(_in_other_places(facts)):
        yield _sizes_differ(facts, sizes)
    truncated = first_attempt(facts.events_of("n.truncated"))
    if truncated and timing_of(facts, truncated[0]) is EventTiming.RUNNING and not facts.mismatches:
        ranks = ranks_of_last_errors(facts, truncated)
        yield _plain(
            tell("truncated" if ranks else "truncated-somewhere", ranks=ranks),
            quote_events(truncated),
            ranks,
            tell("side-not-told"),
        )


def _other_model(facts: Facts) -> DetectorResult | None:
    """DDP compares the parameters of all ranks before the first step: their number, then each with that of rank 0."""
    counts, differing = parameter_counts(facts), differing_parameters(facts)
    because: tuple[Text, ...] = (tell("compared-with-zero"),)
    if odd := outlier_models(counts):
        summary = tell("models-differ" if len(odd) == len(counts) else "other-model", ranks=odd)
        because = tuple(tell("parameters", rank=rank, count=count) for rank, count in sorted(counts.items())[:4])
    elif differing is not None:
        parts = {"ranks": differing.ranks, "index": differing.index, "shape": differing.shape}
        odd, sizes = differing.ranks, differing.kind == "sizes"
        if differing.is_rank_zero:
            odd, summary = (0,), tell("odd-zero" if sizes else "odd-zero-strides", **parts)
        else:
            summary = tell("odd-sizes" if sizes else "odd-strides", **parts)
    else:
        return None
    return make_signal(
        Grade.STATED,
        summary,
        whole=False,
        ranks=odd,
        phase=Phase.INIT,
        where=place_of(facts, odd[0]),
        because=because,
        evidence=quote_events(first_attempt(facts.events_of("ddp.shape"))),
        remedies=(remedy("build-same-model"),),
    )


def _found_printed(facts: Facts, printed: FingerprintMismatch) -> DetectorResult:
    ranks = printed.outliers or tuple(sorted(printed.calls))
    told = {"ranks": ranks, "kinds": " and ".join(printed.differs_in), "position": printed.position}
    sides = two_sides(printed.as_calls(), ranks) if printed.position is not None else None
    return make_signal(
        Grade.RECORD,
        sides or tell("called-another" if printed.outliers else "disagree", **told),
        whole=len(printed.outliers) == 1 and len(printed.calls) == facts.world_size,
        ranks=ranks,
        phase=printed.phase,
        where=printed.where,
        calls=printed.as_calls(),
        because=tuple(fingerprint_reasons(printed)),
        evidence=printed.evidence,
        remedies=(remedy("issue-same-call"),),
    )


def _sizes_differ(facts: Facts, sizes: tuple[LogEvent, ...]) -> DetectorResult:
    """Whom Gloo ended, and where others fell with it: who went without a call, no line tells."""
    fell = ((one.rank, one.frames) for one in facts.tracebacks if one.rank is not None and is_echo(one))
    at = {rank: first_user_frame(frames, facts.sources) for rank, frames in fell}
    ended = tuple(rank for rank in ended_by_gloo(facts) if rank not in at)
    places = {place_of(facts, rank) for rank in ended} | set(at.values())
    where = next((place for rank in (*at, *ended) if (place := at.get(rank) or place_of(facts, rank))), None)
    stood = next((one for rank in ended if (one := facts.ranks[rank].activity)), None)
    around = ways_around_line(facts, stood.frames) if stood is not None and len(places) == 1 else ()
    sides = tuple(sorted({*ended, *at} if len(facts.ranks) > 2 else facts.ranks))
    return make_signal(
        Grade.STATED,
        tell("gloo-ended", ranks=ended) if ended else tell("tensor-sizes"),
        whole=False,
        ranks=sides[1:] and sides,
        where=where,
        evidence=quote_events(sizes),
        because=(*falls_of_others(at, around), tell("side-undecided"), tell("detail-names")),
        remedies=call_in_every_round(around) or (remedy("issue-same-call"),),
    )


def _plain(
    summary: Text, evidence: tuple[Evidence, ...], ranks: tuple[int, ...] = (), *because: Text
) -> DetectorResult:
    return make_signal(
        Grade.STATED,
        summary,
        whole=False,
        ranks=ranks,
        evidence=evidence,
        because=(*because, tell("detail-names")),
        remedies=(remedy("issue-same-call"),),
    )


# ---------------------------------------------------------------------------------------------------
# roots


def detect_roots(facts: Facts) -> Iterator[DetectorResult]:
    """All are in one broadcast, and each names another sender (`src=best`, where `best` is the rank with the best score
    that this rank knows of), which does not know that it is one. Never certain: the roots are not recorded."""
    for found in differing_roots(facts):
        group, call = facts.groups[found.group], found.call
        pending = [group.pending(rank) for rank in found.ranks[:2]]
        yield make_signal(
            Grade.SOURCE if found.depends_on_rank else Grade.STACK,
            tell(
                "roots-differ" if found.depends_on_rank else "roots-may-differ",
                operation=call.operation,
                root=found.root,
            ),
            whole=not found.depends_on_rank,
            ranks=found.ranks,
            group=group_label(facts, found.group),
            phase=Phase.COMMUNICATION,
            where=call.where,
            waiter_where=call.where,
            calls=waiters_call(found.ranks, call),
            because=_roots_reasons(found),
            evidence=tuple(one.evidence for one in pending if one is not None),
            remedies=(remedy("use-one-root"),),
        )


def _roots_reasons(found: DifferingRoots) -> tuple[Text, Text]:
    if not found.depends_on_rank:
        return (tell("root-of-its-own"), tell("nothing-can-fail"))
    return (
        tell("in-call-still" if found.some_finished else "joined-none-finished", ranks=found.ranks),
        tell("root-by-rank", root=found.root),
    )


# ---------------------------------------------------------------------------------------------------
# threads


def detect_threads(facts: Facts) -> Iterator[DetectorResult]:
    """Two threads of a rank are in collectives of one group, and which comes first is chance: a thread that saves calls
    `dist.barrier()` while the main thread trains. Certain where records of one group show both lines."""
    found = concurrent_collectives(facts)
    if found is None:
        return
    differ = any(one.group == found.group for one in facts.mismatches)
    yield make_signal(
        Grade.RECORD if found.group is not None else Grade.STACK,
        tell("threads-at-once", ranks=found.ranks, main=found.main.operation, other=found.other.operation),
        whole=differ or found.group is None,
        ranks=found.ranks,
        nodes=hosts_of(facts, found.ranks),
        group=group_label(facts, found.group),
        phase=Phase.COMMUNICATION,
        where=found.other.where,
        waiter_where=found.main.where,
        calls=tuple(Call(found.ranks, one.operation or "") for one in (found.other, found.main)),
        because=tuple(thread_reasons(found, differ=differ)),
        evidence=(found.other.evidence, found.main.evidence),
        remedies=(remedy("use-group-per-thread", thread=thread_name(found.other)),),
    )
