"""uneven-data: ranks run a different number of steps.

What happens: one rank runs out of batches first and leaves the loop to finish, evaluate or save. Or the loop's header,
or a `break` or `return` in it, depends on the rank and on the step number.
Why it hangs: the other ranks are still in the loop, waiting in a step's collective that this rank will never join.
Example: `random_split` without a seed plus a length filter: 1,000 samples on rank 0, 997 on rank 1; no sampler; `if
step >= n + 40 * (1 - rank): break`.
Fix: give every rank the same split (a seed) and the same number of batches (`drop_last`, DistributedSampler; equal
shards: `unhang reshard`), or stop together when the first rank runs out (`unhang.even_batches`, DDP's `join()`).
Certain when: the program's source shows the laggard past the loop and the waiters inside it, no branch on the rank
explains that, and no collective had settled the number of steps. Or the loop's own test uses the rank, and everything
else in it is known before the loop begins or only counts its rounds.
Likely when: a `continue` or a handler that depends on one rank's values may have skipped the calls of a step instead;
only a name suggests that a test uses the rank; step totals differ and there is no source; or a rank printed that it
exits while other ranks waited.
Possible when: there is no source, and only the order of calls suggests that one rank is past the loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import operation_of, quote_mismatch, quote_rank
from unhang.causes.wording.path_reasons import (
    cohort_places,
    decide_together_remedies,
    equal_iterations_reason,
    path_sentences,
    unmatched_parts,
    unmatched_summary,
)
from unhang.causes.wording.signals import calls_of_cohorts, cohort_parts, stall_signal, waiters_line
from unhang.evidence.items import LogEvent, SourceFile
from unhang.facts.divergence.early_loop_exit import EarlyLoopExit, ExitReason, StackLoopExit
from unhang.facts.divergence.other_ways import other_ways
from unhang.facts.divergence.rank_dependent_loop_exit import RankDependentExit, rank_dependent_exits
from unhang.facts.divergence.skipped_calls import unmatched_p2p
from unhang.facts.endings.good_endings import good_endings, left_early
from unhang.facts.endings.guard_errors import ParsedGuardError, guard_errors
from unhang.facts.laggard.laggards import early_loop_exits
from unhang.facts.logs.log_statements import first_attempt, quote_event, timeout_events
from unhang.facts.logs.per_rank_counts import StepCounts, UnequalCounts, step_counts, unequal_counts
from unhang.facts.model import CodeContext, Facts
from unhang.facts.stacks.rank_cohorts import RankCohort
from unhang.facts.waiting.other_barriers import other_barrier
from unhang.findings import Cause, Evidence, Grade, Phase, Remedy, Where
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences
from unhang.program.rank_dependence.data_loading_code import guarded_loop, reads_tables_or_shards
from unhang.program.rank_dependence.same_on_all_ranks import accumulating_call, agreeing_call
from unhang.program.rank_dependence.unseeded_splits import UnseededSplit, unseeded_splits
from unhang.program.syntax.syntax_tree import find_source
from unhang.sentences import Text

CAUSE = Cause.UNEVEN_DATA
tell = Sentences("causes/uneven-data.toml")


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """One cohort past the loop, the other inside it: the rank says how often it runs; or its batches ended, and nobody
    went through a round without its collectives."""
    for told in rank_dependent_exits(facts):
        yield _rank_dependent(facts, told)
    for left in early_loop_exits(facts):
        if left.reason is ExitReason.DATA:
            yield _found(facts, left, step_counts(facts))
    for way in other_ways(facts):
        ended, said = way.out_of_data, {"ranks": way.ranks, "position": way.mismatch.position}
        if ended or way.may_be_behind_loop:
            yield make_signal(
                Grade.STATED if ended else Grade.ORDER,
                tell("ran-out" if ended else "may-have-left", **said),
                whole=False,  # as well as a branch
                ranks=way.ranks,
                because=(tell("says-data-ended" if ended else "call-is-new", **said),),
                evidence=(*ended, *quote_mismatch(way.mismatch)),
                remedies=(remedy("stop-together"),),
            )
    yield from _in_other_barrier(facts)


def _in_other_barrier(facts: Facts) -> Iterator[DetectorResult]:
    """Behind its loop already, in a barrier of the framework that the others would reach after theirs."""
    found = other_barrier(facts)
    if found is None:
        return
    said = {"ranks": found.stall.laggards, "call": found.call, "waiters": found.stall.direct_waiters}
    yield stall_signal(
        Grade.ORDER,
        tell("in-other-barrier", **said),
        facts,
        found.stall,
        whole=False,  # as well as a call that only some ranks make
        because=(tell("missed-by-framework", **said),),
        more_evidence=(found.evidence,),
        remedies=(remedy("stop-together"),),
    )


def _rank_dependent(facts: Facts, left: RankDependentExit) -> DetectorResult:
    past, inside, bound = left.past, left.inside, left.bound
    return make_signal(
        Grade.SOURCE,
        tell("fewer-steps", ranks=past.ranks, line=bound.line),
        whole=bound.sure and bound.alone,
        **cohort_parts(facts, past, inside, left.divided_by.group),
        calls=calls_of_cohorts(left.divided_by),
        because=(*cohort_places(past, inside, left.loop.line, inside.where), *_bound_reasons(left)),
        remedies=tuple(_remedies_of_bound(facts, left)),
    )


def _bound_reasons(left: RankDependentExit) -> Iterator[Text]:
    bound = left.bound
    if bound.kind == "loop":
        yield tell("as-rank-says", line=bound.line, test=bound.test)
    else:
        yield tell("leaves-by-rank", line=bound.line, jump=bound.kind, test=bound.test)
    if not bound.alone:
        yield tell("data-may-have-ended")


def _remedies_of_bound(facts: Facts, left: RankDependentExit) -> Iterator[Remedy]:
    """A count in a header may be that of a rank's part of the data; a jump over data may have come after its end."""
    bound = left.bound
    yield remedy("equalize-steps", file=left.loop.file, line=bound.line, test=bound.test)
    if bound.kind == "loop":
        yield remedy("equalize-batches-with-sampler")
    elif not bound.alone:
        yield _leave_together(facts, left.loop)


def _loop_source(facts: Facts, waiters: RankCohort) -> SourceFile | None:
    """The file of their loop: it is where the stack was judged, a helper's frame may lie deeper."""
    where = waiters.stack_context.where or waiters.where
    return find_source(facts.sources, where.file) if where is not None else None


def _found(facts: Facts, left: EarlyLoopExit, counts: StepCounts) -> DetectorResult:
    laggards, waiters, parted = left.past, left.inside, left.stack_evidence
    printed, source = _printed(facts, laggards.ranks), _loop_source(facts, waiters)
    agreed, told = agreeing_call(source, waiters.loop_line), counts.differ or printed is not None
    later = accumulating_call(source, waiters.loop_line) if not told else None
    # Steps or lengths that were told to differ need no other reason.
    around = left.around if not told else None
    equal_rounds = left.around is not None and left.around.has_equal_rounds
    ways = around.ways if around is not None else ()
    doubted = agreed is not None or later is not None or (around is not None and around.iteration_skips)
    code = tuple(decide_together_remedies(ways))
    data = tuple(_remedies(facts, waiters, parted, printed)) if left.over_data else ()
    return make_signal(
        left.grade,
        tell("ran-out" if later is None and (around is None or not around.out) else "left", ranks=laggards.ranks),
        whole=left.whole and not doubted,
        **cohort_parts(facts, laggards, waiters, left.group)
        | {"evidence": tuple(dict.fromkeys((*_evidence(facts, laggards, waiters, parted), *_lines(printed))))},
        calls=calls_of_cohorts(left.divided_by),
        because=(
            *_stack_reasons(parted),
            *_because(laggards, waiters, counts, agreed),
            *((tell("reduces-later", line=later),) if later is not None else ()),
            *((equal_iterations_reason(left.around),) if left.around is not None and equal_rounds else ()),
            *path_sentences(ways),
            *_count_reasons(printed, counts),
            *_split_reasons(facts),
        ),
        remedies=(*((remedy("accumulate-alike", line=later),) if later is not None else ()), *data, *code),
    )


def _because(laggards: RankCohort, waiters: RankCohort, counts: StepCounts, agreed: int | None) -> Iterator[Text]:
    shown = laggards if laggards.ended or laggards.context is CodeContext.AFTER_LOOP else replace(laggards, where=None)
    inside = waiters.where is not None and waiters.context is CodeContext.INSIDE_LOOP
    yield from cohort_places(
        shown, waiters, waiters.loop_line, (waiters.stack_context.where or waiters.where) if inside else None
    )
    if agreed is not None:
        yield tell("agreed", line=agreed)
    if counts.differ:
        yield tell("steps-differ", told=counts.told)
    if waiters.context is CodeContext.NO_SOURCE:
        yield tell("no-source")


def _stack_reasons(parted: StackLoopExit | None) -> Iterator[Text]:
    if parted is None:
        return
    if parted.line is None:
        yield tell("call-of-one", ranks=parted.past.ranks)
    else:
        yield tell("function-parts", ranks=parted.past.ranks, line=parted.line, step=parted.step_line)
    if parted.bars is not None:
        told = parted.bars.told
        yield tell("bars", told=told)


def _printed(facts: Facts, ranks: tuple[int, ...]) -> UnequalCounts | None:
    """What the program printed of each rank's batches or samples, where these ranks had the fewest."""
    counted = unequal_counts(facts)
    return counted if counted is not None and counted.announced and counted.short == ranks else None


def _count_reasons(printed: UnequalCounts | None, counts: StepCounts) -> Iterator[Text]:
    if printed is not None and not counts.differ:  # else that was said
        yield tell("counts-differ", what=printed.what, told=printed.told)


def _lines(printed: UnequalCounts | None) -> tuple[Evidence, ...]:
    return printed.evidence[:2] if printed is not None else ()


def _evidence(
    facts: Facts, laggards: RankCohort, waiters: RankCohort, parted: StackLoopExit | None
) -> Iterator[Evidence]:
    yield from quote_rank(facts.ranks[laggards.ranks[0]])[:1]
    if laggards.call is not None:
        yield laggards.call.evidence
    if waiters.evidence is not None:
        yield waiters.evidence
    if parted is not None and parted.bars is not None:
        yield parted.bars.evidence


def _split(facts: Facts) -> tuple[str, UnseededSplit | None]:
    """(path, the split without a seed); a loader that shuffles cuts nothing and comes last."""
    splits = [(file.path, split) for file, split in unseeded_splits(facts.sources.values())]
    return min(splits, key=lambda found: found[1].call.endswith("DataLoader"), default=("", None))


def _split_reasons(facts: Facts) -> Iterator[Text]:
    """Why the seeds that are there do not help."""
    _, split = _split(facts)
    if split is not None and split.draws_from and split.seeded:
        yield tell("unseeded", call=split.call, drawn=split.draws_from, seeded=", ".join(split.seeded))


def _remedies(
    facts: Facts, waiters: RankCohort, parted: StackLoopExit | None, printed: UnequalCounts | None
) -> Iterator[Remedy]:
    path, split = _split(facts)
    if split is not None:
        yield remedy("seed-split", call=split.call, path=path, line=split.line, code=split.with_seed, **split.edit)
    shards, together = _equal_shards(facts, _lines(printed)), _leave_together(facts, _loop(waiters))
    if split is None and shards is None and parted is not None:
        yield remedy("seed-data-splits")  # without source nobody knows what was drawn
    yield from (shards, together) if shards is not None else ()
    yield remedy("equalize-batches-with-sampler")
    yield from (together,) if shards is None else ()


def _loop(waiters: RankCohort) -> Where | None:
    """Where the header of the loop around the waiters stands."""
    where, line = waiters.stack_context.where, waiters.loop_line
    return Where(where.file, line, where.function) if where is not None and line is not None else None


# ---------------------------------------------------------------------------------------------------
# sends and receives


def detect_partners(facts: Facts) -> Iterator[DetectorResult]:
    """Of sends and receives: partners that went on while the others go through more rounds, as where one stage of a
    pipeline has three micro-batches and the others four. Never certain: Gloo counts no sends.
    """
    for found in unmatched_p2p(facts):
        if found.in_a_loop:
            yield make_signal(Grade.SOURCE, unmatched_summary(found), **unmatched_parts(facts, found))


def detect_left(facts: Facts) -> Iterator[DetectorResult]:
    """Ranks whose program ended, as far as lines tell, while the others were in a collective. Never certain: a branch
    may have led out of the program as well."""
    for left in left_early(facts):
        stall = left.stall
        yield stall_signal(
            Grade.ORDER,
            tell("left-program", ranks=stall.laggards, waiters=stall.waiters, operation=operation_of(stall.call)),
            facts,
            stall,
            whole=left.stated,
            because=(
                tell("says-it-ends" if left.stated else "no-process-left", ranks=stall.laggards),
                *waiters_line(stall),
            ),
            evidence=left.evidence,
            remedies=(remedy("stop-together"),),
        )


# ---------------------------------------------------------------------------------------------------
# counts in lines


def detect_printed(facts: Facts) -> Iterator[DetectorResult]:
    """Counts in lines that must be equal on all ranks and differ (`Ran 327 validation batches`, `Ran 338 validation
    batches`), what torch's Join says of them, and errors of guards that compare data or count batches (`RanksDiffer:
    even_batches at train.py:40`)."""
    counts = unequal_counts(facts)
    if counts is not None:
        yield _found_printed(facts, counts)
    fewer = first_attempt(facts.events_of("run.fewer"))
    if fewer and timeout_events(facts):  # else Join does what it is there for
        yield _ran_out_inside_join(facts, fewer[0])
    yield from (_hold_other_data(error) for error in guard_errors(facts.tracebacks) if error.said.kind == "differ")


def _found_printed(facts: Facts, counts: UnequalCounts) -> DetectorResult:
    shards, ended = _equal_shards(facts, counts.evidence), good_endings(facts).ranks
    parted = tuple(ended.values()) if {*ended} == {*counts.short} else ()  # they alone came to their end
    went_on = counts.went_on and not parted
    return make_signal(
        Grade.ORDER,
        tell("steps-unequal", what=counts.what, told=counts.told),
        whole=counts.announced and bool(counts.short) and not went_on,
        ranks=counts.short,
        phase=Phase.EVAL if "val" in counts.what.lower() else Phase.DATA,
        because=(
            tell("must-print" if counts.announced else "one-apart"),
            *((tell("went-on"),) if went_on else ()),
        ),
        evidence=(*counts.evidence, *(Evidence(end.source, end.text) for end in parted[:2])),
        remedies=(
            *((shards,) if shards is not None else ()),
            remedy("equalize-batches-before-sharding"),
            _leave_together(facts),
        ),
    )


def _ran_out_inside_join(facts: Facts, said: LogEvent) -> DetectorResult:
    return make_signal(
        Grade.STATED,
        tell("fewer-inputs", ranks=(said.values["rank"],), count=said.values["count"]),
        whole=False,  # which call the others waited in is not said
        ranks=(said.values["rank"],),
        phase=Phase.DATA,
        because=(tell("join-covers-steps"),),
        evidence=(quote_event(said), *map(quote_event, timeout_events(facts)[:1])),
        remedies=(remedy("equalize-batches-before-sharding"), _leave_together(facts)),
    )


def _hold_other_data(error: ParsedGuardError) -> DetectorResult:
    """The guard compared data, or counted batches."""
    return make_signal(
        Grade.STATED,
        tell("other-data", ranks=error.said.ranks, detail=error.said.detail),
        ranks=error.said.ranks,
        where=error.raised_at,
        because=(tell("compared"),),
        evidence=(error.evidence,),
        remedies=(remedy("equalize-data"),),
    )


_TABLE = re.compile(r"[\w./{}-]*\w\.(?:csv|tsv|jsonl|parquet|tar)\b")


def _equal_shards(facts: Facts, said: Sequence[Evidence] = ()) -> Remedy | None:
    """For programs that read tables or shards: write them anew; None for others. ``said``: lines that may name one."""
    names = list(dict.fromkeys(name for line in said for name in _TABLE.findall(line.text)))
    if not names and not reads_tables_or_shards(facts.sources.values()):
        return None
    return remedy("reshard-data", data=names[0] if names else "DATA", ranks=facts.world_size or "N")


def _leave_together(facts: Facts, loop: Where | None = None) -> Remedy:
    """A guard around the data of the loop; ``loop`` is a line in its header, where one is known."""
    if loop is None or loop.line is None:
        return remedy("stop-together")
    source = find_source(facts.sources, loop.file)
    code = guarded_loop(source, loop.line) if source is not None else None
    if code is None:
        return remedy("stop-together")
    return remedy("stop-together-at", path=loop.file, line=loop.line, code=code)
