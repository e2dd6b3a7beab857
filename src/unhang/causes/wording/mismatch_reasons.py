"""What a signal says of ranks that issued different collectives at one position."""

from __future__ import annotations

from collections.abc import Iterator

from unhang.evidence.items import Signature
from unhang.facts.alignment.collective_fingerprints import FingerprintMismatch
from unhang.facts.model import Activity, CallMismatch
from unhang.facts.stacks.rank_cohorts import RankCohort
from unhang.facts.waiting.concurrent_collectives import ConcurrentCollectives
from unhang.facts.waiting.progress_from_stacks import STACK_GROUP
from unhang.findings import Remedy
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, say


def mismatch_summary(mismatch: CallMismatch, ranks: tuple[int, ...]) -> Text:
    """Who called what else; ``ranks``: who is odd, or all."""
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


def mismatch_reasons(
    mismatch: CallMismatch,
    cohorts: tuple[RankCohort, ...],
    passed: tuple[RankCohort, int] | None,
    *,
    went_on: bool,
    path_unknown: bool,
) -> Iterator[Text]:
    """What each side called, and what makes the comparison unsure. ``passed``: who has come through the call, at which
    line, in which the others are; ``path_unknown``: of some no source was read."""
    yield from (_call_of(ranks, signature) for signature, ranks in mismatch.calls.items())
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
    if path_unknown and not went_on:
        yield say("the source was not in the evidence: a branch or the end of a loop may explain the other call")
    if not mismatch.records_align:
        yield say("some records start later than others, so positions may be shifted against each other")
    if passed is not None:
        yield say(
            "{ranks:who} {ranks:has|have} come through the call at line {line}, in which the others still are",
            ranks=passed[0].ranks,
            line=passed[1],
        )


def _call_of(ranks: tuple[int, ...], signature: Signature) -> Text:
    if not signature.input_elements and not signature.input_dtypes:  # a barrier, or a place in a log
        return say("{ranks:who}: {operation}", ranks=ranks, operation=signature.operation)
    if not signature.input_dtypes:  # lines of logs name no dtype
        return say(
            "{ranks:who}: {operation} of {elements} elements",
            ranks=ranks,
            operation=signature.operation,
            elements=signature.input_elements,
        )
    return say(
        "{ranks:who}: {operation} of {elements} elements, {dtype}",
        ranks=ranks,
        operation=signature.operation,
        elements=signature.input_elements,
        dtype="/".join(dict.fromkeys(signature.input_dtypes)),
    )


def fingerprint_reasons(printed: FingerprintMismatch) -> Iterator[Text]:
    """What each rank called, as torch printed it."""
    for rank, call in sorted(printed.calls.items()):
        yield say(
            "rank {rank}: {operation} of shape {shape}, {dtype}",
            rank=rank,
            operation=call.operation,
            shape="x".join(str(size) for size in call.shape) or "none",
            dtype=call.dtype or "no tensor",
        )
    if not printed.outliers and len(printed.calls) == 2:
        yield say("of two ranks it cannot be told which one is wrong")


def mismatch_remedies(mismatch: CallMismatch) -> tuple[Remedy, ...]:
    """What to make equal."""
    if {"operation", "call-site"} & set(mismatch.differs_in):
        return (remedy("issue-same-collectives"),)
    sizes, dtypes = remedy("equalize-sizes"), remedy("cast-to-one-dtype")
    if "dtype" in mismatch.differs_in:
        return (dtypes,)
    return (sizes, dtypes) if "bytes" in mismatch.differs_in else (sizes,)


def thread_reasons(found: ConcurrentCollectives, *, differ: bool) -> Iterator[Text]:
    """Where the two threads are; ``differ``: the ranks called different ones of the two at one position."""
    for one in (found.main, found.other):
        if one.where is not None:
            yield say(
                "thread {thread} is in {operation} at {file}:{line}",
                thread=thread_name(one),
                operation=one.operation,
                file=one.where.file,
                line=one.where.line,
            )
    if differ:
        yield say("at one position of the group the ranks called different ones of the two")
    yield say("calls of a group are paired by order, and which of the threads comes first is chance on each rank")


def thread_name(one: Activity) -> str:
    """As the stack calls it."""
    return (one.thread.name if one.thread is not None else "") or "?"
