"""What a signal says of ranks that issued different collectives at one position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from unhang.causes.evidence_lines import calls_of_mismatch, short_place
from unhang.causes.wording.next_steps import rank_command
from unhang.causes.wording.path_reasons import path_sentences
from unhang.evidence.items import Frame, Signature
from unhang.facts.alignment.collective_fingerprints import FingerprintMismatch
from unhang.facts.divergence.bypass_paths import BypassPath, paths_around_call
from unhang.facts.endings.good_endings import is_job_over
from unhang.facts.model import Activity, CallMismatch, Facts
from unhang.facts.stacks.rank_cohorts import RankCohort
from unhang.facts.stacks.stack_divergence import diverge_in_library
from unhang.facts.stacks.user_frames import is_user_frame
from unhang.facts.waiting.concurrent_collectives import ConcurrentCollectives
from unhang.facts.waiting.progress_from_stacks import STACK_GROUP
from unhang.findings import Call, Remedy, Where
from unhang.knowledge.activities import row_of_frame
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences
from unhang.sentences import Text

tell = Sentences("causes/collective-mismatch.toml")


def mismatch_summary(mismatch: CallMismatch, ranks: tuple[int, ...]) -> Text:
    """Who called what else; ``ranks``: who is odd, or all."""
    kinds = " and ".join(kind.replace("call-site", "line") for kind in mismatch.differs_in)
    if mismatch.group != STACK_GROUP and mismatch.outliers and mismatch.differs_in == ("call-site",):
        return tell("other-line-from", ranks=ranks, position=mismatch.position)
    if mismatch.differs_in == ("bytes",) and not mismatch.outliers:
        ((call, sent),) = mismatch.calls.items()
        said = {"operation": call.operation, "position": mismatch.position, "elements": call.input_elements}
        return tell("more-than-asked", ranks=sent, others=mismatch.aborted, **said)
    if mismatch.differs_in == ("bytes",):
        return tell("fewer-bytes", ranks=ranks, position=mismatch.position)
    sides = two_sides(calls_of_mismatch(mismatch), ranks, recorded=mismatch.group != STACK_GROUP)
    if sides is not None:
        return sides
    if mismatch.group == STACK_GROUP:
        return tell("in-other-call", ranks=ranks)
    if mismatch.outliers or len(ranks) < sum(map(len, mismatch.calls.values())):
        return tell("called-another", ranks=ranks, kinds=kinds, position=mismatch.position)
    return tell("disagree", ranks=ranks, kinds=kinds, position=mismatch.position)


def two_sides(calls: tuple[Call, ...], ranks: tuple[int, ...], *, recorded: bool = True) -> Text | None:
    """What each of two sides called, that of ``ranks`` first; None where there are more, or one is not known.
    ``recorded``: by its position, not only in stacks."""
    if len(calls) != 2:
        return None
    odd, others = sorted(calls, key=lambda call: (not set(call.ranks) <= set(ranks), call.ranks))
    parts = {"ranks": odd.ranks, "operation": odd.operation, "others": others.ranks, "position": odd.position}
    if odd.operation != others.operation:
        return tell("two-operations" if recorded else "in-two-operations", other=others.operation, **parts)
    if odd.elements != others.elements and None not in (odd.elements, others.elements):
        return tell("two-sizes", mine=odd.elements, theirs=others.elements, **parts)
    if odd.dtype != others.dtype and None not in (odd.dtype, others.dtype):
        return tell("two-dtypes", mine=odd.dtype, theirs=others.dtype, **parts)
    return None


def mismatch_reasons(
    mismatch: CallMismatch,
    cohorts: tuple[RankCohort, ...],
    passed: tuple[RankCohort, int] | None,
    around: Sequence[BypassPath],
    *,
    went_on: bool,
    path_unknown: bool,
) -> Iterator[Text]:
    """What leads ``around`` them, what each side called, and what makes the comparison unsure. ``passed``: who has come
    through the call, at which line, in which the others are; ``path_unknown``: of some no source was read."""
    yield from path_sentences(around)
    yield from calls_in_words(mismatch)
    if not mismatch.outliers:
        yield tell("side-undecided")
    if mismatch.aborted:
        yield tell("gloo-more-arrived", ranks=mismatch.aborted)
    if went_on:
        if mismatch.times > 1:
            yield tell("times-so-far", times=mismatch.times)
        yield tell("nothing-stops")
    elif _at_one_line(cohorts):
        yield tell("same-line")
    if path_unknown and not went_on:
        yield tell("no-source")
    if not mismatch.records_align and not mismatch.group.startswith(STACK_GROUP):
        yield tell("records-shifted")
    if passed is not None:
        yield tell("came-through", ranks=passed[0].ranks, line=passed[1])


def calls_in_words(mismatch: CallMismatch) -> Iterator[Text]:
    """What each side called, and what that is in a step."""
    for signature, ranks in mismatch.calls.items():
        yield _call_of(ranks, signature)
        call = next((mismatch.pending[rank] for rank in ranks if rank in mismatch.pending), None)
        rows = (row_of_frame(f.function, f.file, native=f.native) for f in (call.stack if call is not None else ()))
        inside = {row.what for row in rows if row is not None}
        if "backward" in inside and signature.operation == "all_reduce":
            yield tell("reduces-gradients", ranks=ranks)
        elif "forward" in inside and signature.operation == "broadcast":
            yield tell("sends-buffers", ranks=ranks)


def _call_of(ranks: tuple[int, ...], signature: Signature) -> Text:
    if not signature.input_elements and not signature.input_dtypes:  # a barrier, or a place in a log
        return tell("call", ranks=ranks, operation=signature.operation)
    if not signature.input_dtypes:  # lines of logs name no dtype
        return tell("call-of-size", ranks=ranks, operation=signature.operation, elements=signature.input_elements)
    return tell(
        "call-of-dtype",
        ranks=ranks,
        operation=signature.operation,
        elements=signature.input_elements,
        dtype="/".join(dict.fromkeys(signature.input_dtypes)),
    )


def fingerprint_reasons(printed: FingerprintMismatch) -> Iterator[Text]:
    """What each rank called, as torch printed it."""
    for rank, call in sorted(printed.calls.items()):
        yield tell(
            "call-of-shape",
            rank=rank,
            operation=call.operation,
            shape="x".join(str(size) for sizes in call.input_sizes for size in sizes) or "none",
            dtype=next(iter(call.input_dtypes), "no tensor"),
        )
    if not printed.outliers and len(printed.calls) == 2:
        yield tell("side-undecided")


def falls_of_others(at: Mapping[int, Where | None], around: Sequence[BypassPath]) -> Iterator[Text]:
    """Where ranks fell after the first one, and what leads around that line."""
    yield from path_sentences(around)
    for rank, where in sorted(at.items()):
        if where is not None:
            yield tell("failed-in-turn", rank=rank, place=short_place(where))


def ways_around_one_line(
    facts: Facts, mismatch: CallMismatch, cohorts: tuple[RankCohort, ...]
) -> tuple[BypassPath, ...]:
    """Of calls at one line that differ in nothing but their size."""
    if not _at_one_line(cohorts) or not {"bytes", "size"}.issuperset(mismatch.differs_in):
        return ()
    return ways_around_line(facts, cohorts[0].frames)


def ways_around_line(facts: Facts, frames: Sequence[Frame]) -> tuple[BypassPath, ...]:
    """What leads around the call in one round of the loop it stands in: the call of the next round comes in its
    place."""
    own = [frame for frame in frames if is_user_frame(frame, facts.sources)]
    return tuple(way for way in paths_around_call(own[:1], facts.sources) if way.kind in ("if", "continue"))


def call_in_every_round(around: Sequence[BypassPath]) -> tuple[Remedy, ...]:
    """What to change at the first of them."""
    return tuple(remedy("call-in-every-round", test=way.test, place=short_place(way.where)) for way in around[:1])


def what_would_settle(facts: Facts, mismatch: CallMismatch) -> tuple[Remedy, ...]:
    """Where only stacks tell, and not whose call it is: which rank is further along, while the job runs."""
    ranks = sorted(mismatch.pending)[:2]
    if not mismatch.group.startswith(STACK_GROUP) or mismatch.outliers or is_job_over(facts) is not False:
        return ()
    commands = (rank_command(facts, rank, "py-spy dump --locals") for rank in ranks)
    return (remedy("compare-step-counters", commands="; ".join(dict.fromkeys(commands))),)


def mismatch_remedies(
    mismatch: CallMismatch, cohorts: tuple[RankCohort, ...], around: tuple[BypassPath, ...]
) -> tuple[Remedy, ...]:
    """What to make equal."""
    if around:
        return call_in_every_round(around)
    same, sizes, dtypes = remedy("issue-same-collectives"), remedy("equalize-sizes"), remedy("cast-to-one-dtype")
    if {"operation", "call-site"} & set(mismatch.differs_in):
        return (same,)
    if "dtype" in mismatch.differs_in:
        return (dtypes,)
    if "bytes" in mismatch.differs_in:
        return (sizes, dtypes)
    # what an all-reduce takes is as large as the program says: another size is most often another call
    if any(call.operation != "all_reduce" for call in mismatch.calls):
        return (sizes,)
    return (sizes, same) if _at_one_line(cohorts) else (same, sizes)


def _at_one_line(cohorts: tuple[RankCohort, ...]) -> bool:
    first = cohorts[0]
    return first.where is not None and all(
        one.where == first.where and not diverge_in_library(first.frames, one.frames) for one in cohorts[1:]
    )


def thread_reasons(found: ConcurrentCollectives, *, differ: bool) -> Iterator[Text]:
    """Where the two threads are; ``differ``: the ranks called different ones of the two at one position."""
    for one in (found.main, found.other):
        if one.where is not None:
            yield tell(
                "thread-at", thread=thread_name(one), operation=one.operation, file=one.where.file, line=one.where.line
            )
    if differ:
        yield tell("threads-mixed")
    yield tell("paired-by-order")


def thread_name(one: Activity) -> str:
    """As the stack calls it."""
    return (one.thread.name if one.thread is not None else "") or "?"
