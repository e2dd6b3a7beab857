"""rank-conditional-collective: a collective that only some ranks reach, because the path to it depends on the rank.

What happens: a collective (or a sharded forward, a state dict, a save, an evaluation) is inside `if rank == 0:`, or
after a rank-dependent `continue` or `return`. Or a `continue`, a handler or a test on its own data made one rank skip
collectives of an earlier step, and it has been ahead since.
Why it hangs: the ranks inside the branch wait for ranks that never enter it.
Example: `if rank == 0: evaluate(model)` with a DDP or FSDP model, or a metric reduced on rank 0 only; `if not
torch.isfinite(loss): continue` before `loss.backward()`.
Fix: move the collective out of the branch: let all ranks compute and one rank print or write. Decide together whether
to skip: all-reduce the flag before the test.
Certain when: the program's source shows the call of one side inside a branch on the rank; DDP names it itself; or the
records show a few ranks leaving an order of calls that all ranks had kept.
Likely when: the source shows a loop of equal rounds and no way out of it; or, without source, the operations at one
position differ (a single number against a gradient).
Possible when: the source does not show which step a rank skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import (
    calls_of_mismatch,
    group_label,
    hosts_of,
    operation_of,
    place_of,
    quote_mismatch,
    waiters_call,
)
from unhang.causes.wording import path_reasons
from unhang.causes.wording.engine_reasons import without_step
from unhang.causes.wording.mismatch_reasons import calls_in_words, two_sides
from unhang.causes.wording.signals import calls_of_cohorts, cohort_parts, grade_of_group, stall_signal
from unhang.facts.alignment.collective_fingerprints import FingerprintMismatch, fingerprint_mismatch
from unhang.facts.alignment.sequence_offset import SequenceOffset, find_sequence_offset, minority_and_majority
from unhang.facts.collective_operations import canonical_operation
from unhang.facts.divergence.branch_division import BranchDivision
from unhang.facts.divergence.bypass_paths import BypassPaths
from unhang.facts.divergence.early_loop_exit import EarlyLoopExit, ExitReason
from unhang.facts.divergence.other_ways import OtherWay, other_ways
from unhang.facts.divergence.rank_dependent_loop_exit import rank_dependent_exits
from unhang.facts.divergence.skipped_calls import SkippedCollective, extra_call, skipped_collective
from unhang.facts.endings.guard_errors import ParsedGuardError, guard_errors
from unhang.facts.laggard.laggards import InGuard, Laggards, branch_divisions, early_loop_exits, laggards_doing
from unhang.facts.laggard.waits_on_others import UnsetKey
from unhang.facts.logs.last_log_lines import last_line_phases
from unhang.facts.logs.log_statements import first_attempt, quote_events, ranks_of_events
from unhang.facts.logs.waits_in_logs import LoggedWaits, LogWait, logged_waits
from unhang.facts.model import CodeContext, Facts, Stall
from unhang.facts.stacks.rank_cohorts import cohorts_of_mismatch
from unhang.findings import Call, Cause, Grade, Phase
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences
from unhang.sentences import Text

CAUSE = Cause.RANK_CONDITIONAL_COLLECTIVE
tell = Sentences("causes/rank-conditional-collective.toml")


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """One cohort's call site lies in a branch on the rank; or a rank went around calls of an earlier step."""
    yield from (_divided(facts, division) for division in branch_divisions(facts))
    for left in early_loop_exits(facts):
        if left.around is not None and left.reason is ExitReason.OWN_DECISION:
            yield _jumped_out(facts, left, left.around)
        elif left.around is not None and left.reason is ExitReason.SKIPPED_ITERATION:
            yield _skipped_iteration(facts, left, left.around)
    yield from (*_unused_parameters(facts), *without_step(facts))


def _unused_parameters(facts: Facts) -> Iterator[DetectorResult]:
    """DDP's own word: parameters that got no gradient on some ranks, whose reduction the others wait for."""
    if not (events := first_attempt(facts.events_of("ddp.unused"))):
        return
    ranks = ranks_of_events(events)
    yield make_signal(
        Grade.STATED,
        tell("unused-by" if ranks else "unused", ranks=ranks),
        ranks=ranks,
        where=place_of(facts, ranks[0]) if ranks else None,
        because=(tell("raised-by-ddp"),),
        evidence=quote_events(events),
        remedies=(remedy("handle-unused-parameters"),),
    )


def _divided(facts: Facts, division: BranchDivision) -> DetectorResult:
    odd, others = division.odd
    group_setup = isinstance(division.divided_by, Stall) and division.inside.ranks == division.divided_by.laggards
    if division.bound is not None:
        mended = path_reasons.decide_bound_together(*division.bound)
    elif division.inside.branch_line is None:
        mended = remedy("move-collective-unknown-branch")
    else:
        at = division.inside.stack_context.where or division.inside.where
        place = {} if at is None else {"path": at.file, "line": at.line}
        mended = remedy("move-collective-from-branch", branch=division.inside.branch_line, **place)
    return make_signal(
        Grade.SOURCE,
        path_reasons.division_summary(division),
        whole=division.whole,
        **cohort_parts(facts, odd, others, division.divided_by.group),
        calls=() if group_setup else calls_of_cohorts(division.divided_by),
        because=tuple(path_reasons.branch_reasons(division.inside, division.outside)),
        remedies=(mended,),
    )


def _jumped_out(facts: Facts, left: EarlyLoopExit, around: BypassPaths) -> DetectorResult:
    """On a value that each rank finds by itself. A loop over data inside that one makes it less sure."""
    jump = around.jumps[0]
    return make_signal(
        left.grade,
        tell("left-loop-at", ranks=left.past.ranks, line=jump.where.line)
        if len(around.jumps) == 1
        else tell("left-loop", ranks=left.past.ranks),
        whole=left.whole and not left.over_data and not around.iteration_skips,
        **cohort_parts(facts, left.past, left.inside, left.group),
        calls=calls_of_cohorts(left.divided_by),
        because=(
            *path_reasons.cohort_places(left.past, left.inside, left.inside.loop_line, left.inside.stack_context.where),
            path_reasons.not_the_data_reason(around),
            *path_reasons.path_sentences((*around.jumps, *around.iteration_skips)),
        ),
        remedies=tuple(path_reasons.decide_together_remedies(around.jumps)),
    )


def _skipped_iteration(facts: Facts, left: EarlyLoopExit, around: BypassPaths) -> DetectorResult:
    """Past a loop that cannot be shorter on one rank and that nothing leaves; which step it was, no record tells."""
    return make_signal(
        left.grade,
        tell("went-around-and-left" if around.ways else "fewer-calls", ranks=left.past.ranks),
        whole=False,
        **cohort_parts(facts, left.past, left.inside, left.group),
        because=(path_reasons.equal_iterations_reason(around), *path_reasons.path_sentences(around.ways)),
        remedies=tuple(path_reasons.decide_together_remedies(around.ways)) or (remedy("issue-same-step-collectives"),),
    )


# ---------------------------------------------------------------------------------------------------
# other calls at one position


def detect_calls(facts: Facts) -> Iterator[DetectorResult]:
    """A call that only some made, as the order of all calls before or the source tells; and other operations without
    source: where the odd call is new to its rank, it may stand behind the loop as well, and is only possible."""
    left = {one.group for one in early_loop_exits(facts)} | {one.divided_by.group for one in branch_divisions(facts)}
    left |= {one.divided_by.group for one in rank_dependent_exits(facts)}
    for way in other_ways(facts):
        if way.mismatch.group not in left and not way.out_of_data:
            yield _other_way(facts, way)


def _other_way(facts: Facts, way: OtherWay) -> DetectorResult:
    mismatch, ranks, call = way.mismatch, way.ranks, way.call
    odd, *others = sorted(cohorts_of_mismatch(facts, mismatch), key=lambda one: not set(one.ranks) <= set(ranks))
    mine, theirs = _operations(way)
    rest = tuple(sorted({rank for cohort in others for rank in cohort.ranks}.difference(ranks)))
    said = {"ranks": ranks, "others": rest, "position": mismatch.position}
    return make_signal(
        Grade.ORDER if way.may_be_behind_loop else grade_of_group(facts, mismatch.group, of_stacks=Grade.SOURCE),
        path_reasons.line_of_some(facts, call, ranks, rest)
        or (tell("skipped", **said, operation=theirs) if way.skipped else None)
        or (two_sides(calls_of_mismatch(mismatch), ranks) if mine == theirs else None)
        or tell("other-way" if rest else "parted", **said, operation=mine, other=theirs),
        whole=way.whole,
        cause=Cause.COLLECTIVE_MISMATCH if call is not None and call.in_thread else None,
        **cohort_parts(facts, odd, others[0] if others else None, mismatch.group)
        | {"ranks": ranks, "nodes": hosts_of(facts, ranks), "evidence": (*way.skips, *quote_mismatch(mismatch))},
        calls=calls_of_mismatch(mismatch),
        because=(
            *((tell("says-it-skips", **said),) if way.skips else ()),
            *(path_reasons.call_reasons(call, skipped=way.skipped, in_order=way.left is not None) if call else ()),
            *calls_in_words(mismatch),
            *(() if call is not None else (tell("one-number" if mine == theirs else "no-argument"),)),
        ),
        remedies=tuple(path_reasons.call_remedies(call, skipped=way.skipped)),
    )


def _operations(way: OtherWay) -> tuple[str, str]:
    """That of the odd ranks, and that of the others; of a tie either."""
    calls = sorted(way.mismatch.calls.items(), key=lambda one: not set(one[1]) <= set(way.ranks))
    names = [canonical_operation(signature.operation) for signature, _ in calls]
    return names[0], next((name for name in names if name != names[0]), names[0])


# ---------------------------------------------------------------------------------------------------
# a call of a small group


def detect_circle(facts: Facts) -> Iterator[DetectorResult]:
    """A rank went around a call of its group (`if mask.any(): dist.all_reduce(y, group=tp)`) and waits further down, in
    another group, for those in it. Never certain: a call that was queued may be behind the line that is seen."""
    for cycle in facts.graph.cycles:
        found, extra = skipped_collective(facts, cycle), extra_call(facts, cycle)
        if extra is not None:
            yield make_signal(Grade.RECORD, **path_reasons.extra_call_parts(facts, extra))
        elif found is not None:
            yield _skipped_call(facts, found)


def _skipped_call(facts: Facts, found: SkippedCollective) -> DetectorResult:
    return make_signal(
        Grade.SOURCE,
        tell(
            "went-around",
            gone=found.gone,
            operation=found.left.operation,
            group=group_label(facts, found.left.group),
            waiting=found.waiting,
        ),
        **path_reasons.skipped_call_parts(facts, found),
    )


# ---------------------------------------------------------------------------------------------------
# a guard


def detect_guard(facts: Facts) -> Iterator[DetectorResult]:
    """Laggards in a guard while those who wait for them stand in a collective: `unhang.together` behind a branch; and
    errors of guards to which some did not come (`RanksMissing`), unless the guard itself says that they died."""
    for at, inside in laggards_doing(facts, InGuard):
        yield (_inside if inside.others_work_in_it else _alone_in_guard)(facts, at, inside.guard)
    errors = (error for error in guard_errors(facts.tracebacks) if error.said.kind in ("missing", "apart"))
    yield from (_took_another_way(error) for error in errors if not error.said.partner_died)


def _inside(facts: Facts, at: Laggards, guard: str) -> DetectorResult:
    """The few inside are the odd ones: they call what the others cannot join."""
    stall, laggards, waiters = at.stall, at.cohort, at.waiters
    return make_signal(
        Grade.STACK,
        tell("calls-inside", ranks=waiters.ranks, operation=operation_of(stall.call), guard=guard),
        **cohort_parts(facts, waiters, laggards, stall.group),
        calls=waiters_call(stall.direct_waiters, stall.call),
        because=(tell("waits-in-guard", ranks=laggards.ranks, guard=guard),),
        remedies=(remedy("move-collective-from-guard"),),
    )


def _alone_in_guard(facts: Facts, at: Laggards, guard: str) -> DetectorResult:
    stall, laggards, waiters = at.stall, at.cohort, at.waiters
    in_branch = laggards.context is CodeContext.RANK_BRANCH
    because = [tell("calls-guard-alone", ranks=laggards.ranks, guard=guard)]
    if in_branch and laggards.branch_line is not None:
        because.append(tell("way-through-branch", line=laggards.branch_line))
    return make_signal(
        Grade.SOURCE,
        tell("guard-cross", ranks=laggards.ranks, guard=guard, operation=operation_of(stall.call)),
        whole=in_branch,
        **cohort_parts(facts, laggards, waiters, stall.group),
        calls=waiters_call(stall.direct_waiters, stall.call),
        because=tuple(because),
        remedies=(remedy("call-guard-unconditionally", guard=guard),),
    )


# ---------------------------------------------------------------------------------------------------
# lines alone


def detect_printed(facts: Facts) -> Iterator[DetectorResult]:
    """From lines alone: printed calls of different work, shifted calls, rank 0 in the last barrier. Never certain."""
    printed = fingerprint_mismatch(facts)
    if printed is not None and "operation" in printed.differs_in and printed.side_work:
        yield _other_work(printed)
    shift = find_sequence_offset(facts)
    if shift is not None:
        yield _sequence_offset(shift)
    logged = logged_waits(facts)
    if logged is not None and _alone_at_the_end(facts, logged):
        yield _last_barrier(facts, logged)


def _other_work(printed: FingerprintMismatch) -> DetectorResult:
    doing = printed.phase.value if printed.phase is not None else "other"
    return make_signal(
        Grade.RECORD,
        tell("in-other-part", ranks=printed.side_work, doing=doing),
        whole=False,
        ranks=printed.side_work,
        phase=printed.phase,
        where=printed.where,
        calls=printed.as_calls(),
        because=(tell("different-parts", position=printed.position),),
        evidence=printed.evidence,
        remedies=(remedy("call-everywhere-write-once"),),
    )


def _sequence_offset(shift: SequenceOffset) -> DetectorResult:
    behind, ahead = _ranks_of(shift.behind), _ranks_of(shift.ahead)
    few, many = map(_ranks_of, minority_and_majority(shift))
    return make_signal(
        Grade.ORDER,
        tell("calls-off", behind=few, by=shift.by, ahead=many),
        whole=all(w.group != "0" for w in (*shift.behind, *shift.ahead)),
        ranks=few,
        calls=tuple(
            Call(ranks, waits[0].operation, waits[0].position, waits[0].elements)
            for ranks, waits in ((behind, shift.behind), (ahead, shift.ahead))
        ),
        because=(
            tell(
                "cannot-overtake", operation=shift.behind[0].operation, ahead=ahead, position=shift.behind[0].position
            ),
            tell("one-side-made", by=shift.by),
        ),
        evidence=(shift.behind[0].evidence, shift.ahead[0].evidence),
        remedies=(remedy("call-everywhere-write-once"),),
    )


def _ranks_of(waits: Iterable[LogWait]) -> tuple[int, ...]:
    return tuple(sorted({wait.rank for wait in waits if wait.rank is not None}))


def _alone_at_the_end(facts: Facts, logged: LoggedWaits) -> bool:
    """Only rank 0 gives up, in a barrier, after the log said that training is over."""
    if logged.ranks != (0,) or not all(w.barrier and w.operation for w in logged.waits):
        return False
    return any(words.phase is Phase.SHUTDOWN for words in last_line_phases(facts))


def _last_barrier(facts: Facts, logged: LoggedWaits) -> DetectorResult:
    return make_signal(
        Grade.ORDER,
        tell("barrier-of-one"),
        whole=False,
        ranks=(0,),
        nodes=hosts_of(facts, (0,)),
        phase=Phase.SHUTDOWN,
        because=(tell("barrier"), tell("training-was-over")),
        evidence=(
            *(w.evidence for w in logged.waits[:2]),
            *(words.evidence for words in last_line_phases(facts) if words.phase is Phase.SHUTDOWN),
        ),
        remedies=(remedy("call-everywhere-write-once"),),
    )


# ---------------------------------------------------------------------------------------------------
# a key in the store


def detect_store(facts: Facts) -> Iterator[DetectorResult]:
    """Laggards at the store, and a line of the program at which those who wait for them set such a key, under a test of
    their own. Likely at most: a key may be set in a thread, or by another program."""
    yield from (_never_set(facts, at.stall, key) for at, key in laggards_doing(facts, UnsetKey))


def _never_set(facts: Facts, stall: Stall, found: UnsetKey) -> DetectorResult:
    """Where most ranks are with the setters, it is who waits at the store that left the common way."""
    here = place_of(facts, stall.laggards[0])
    alone = len(found.setters) > len(stall.laggards)
    return stall_signal(
        Grade.SOURCE,
        tell("key-not-set" if alone else "went-on-without-key", ranks=found.setters, waiting=stall.laggards),
        facts,
        stall,
        ranks=stall.laggards if alone else found.setters,
        whole=False,
        phase=Phase.COMMUNICATION,
        where=here if alone else found.where,
        waiter_where=place_of(facts, found.setters[0]) if alone else here,
        because=tuple(_because_store(stall, found)),
        remedies=(remedy("always-set-store-key", line=found.where.line),),
    )


def _because_store(stall: Stall, found: UnsetKey) -> Iterator[Text]:
    yield tell("key-set-at", waiting=stall.laggards, key=found.key, line=found.where.line)
    if found.branch is not None:
        yield tell("key-line-test", test=found.branch.test, line=found.branch.line)
    yield tell("in-operation", ranks=found.setters, operation=operation_of(stall.call))


def _took_another_way(error: ParsedGuardError) -> DetectorResult:
    """Some did not come to the guard."""
    said = error.said
    alone = said.came if said.came and len(said.came) <= len(said.ranks) else said.ranks
    return make_signal(
        Grade.STATED,
        tell(
            "took-another-way" if said.kind == "apart" or alone == said.ranks else "came-alone",
            ranks=alone,
            guard=said.what,
        ),
        whole=said.branch is not None,
        ranks=alone,
        where=error.raised_at,
        because=(tell("lets-through", test=said.test),) if said.test else (),
        evidence=(error.evidence,),
        remedies=(remedy("enter-guard-everywhere", guard=said.what),),
    )
