"""single-rank-work: one rank works alone (tokenises, saves, logs, evaluates, downloads) while the other ranks wait.

What happens: one rank, usually rank 0, does long but legitimate work; its stack moves, or is in a library that is
working.
Why it hangs: the other ranks are already in the next collective, and its limit runs while that work goes on.
Example: rank 0 tokenises the data set for 40 minutes before a barrier; the other ranks' limit is 30 minutes.
Fix: let every rank do its share, cache the result before the job, move writes off the training thread; or wait without
a collective (on the store or a file) and with a limit that is long enough.
Certain when: the laggard's stack is in such work and the other ranks wait for it in a collective (for a save or an
evaluation the source must show it too); or a guard's error names the line where the rank it waited for was last seen
working.
Likely when: many samples of a job that moves show it; or nothing shows whether the work ends: a loop that only polls
(`while not os.path.exists(flag): sleep(1)`), a line or a `while` that the rank was never seen to leave, a child process
that does nothing itself.
Possible when: in a job that moves, two samples show the same rank in such work while all other ranks wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from unhang.causes.detector import DetectorResult, Signal, make_signal
from unhang.causes.evidence_lines import operation_of, place_of, quote_waits, short_place
from unhang.causes.wording import external_wait_reasons, machine_reasons, pace_reasons
from unhang.causes.wording.next_steps import inspect_ranks
from unhang.causes.wording.signals import stall_signal, waiters_line
from unhang.evidence.stacks.torn_stacks import is_torn
from unhang.facts.collective_operations import is_barrier
from unhang.facts.endings.ended_from_outside import ended_by_user
from unhang.facts.endings.guard_errors import ParsedGuardError, guard_errors
from unhang.facts.evidence_quotes import quote_progress
from unhang.facts.laggard.laggards import Laggards, laggards_doing
from unhang.facts.laggard.main_process_first import MainProcessWait, main_first_of_stall
from unhang.facts.laggard.own_work import OWN_LOOP, OwnWork, UnreturnedCall
from unhang.facts.laggard.work_in_lines import (
    ActiveDuringWait,
    FirstBarrier,
    SpanningWork,
    unfinished_work,
    work_in_lines,
)
from unhang.facts.logs.last_log_lines import LastLinePhase
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.machine.machine_state import storage_signs
from unhang.facts.model import CodeContext, Facts, Stall
from unhang.facts.stacks.calls_on_line import call_spelled_on_line
from unhang.facts.stacks.rank_cohorts import RankCohort
from unhang.facts.stacks.source_context import StackContext
from unhang.facts.stacks.user_frames import is_user_frame
from unhang.facts.waiting.guard_waits import is_guard_call
from unhang.findings import Cause, Grade, Phase, Remedy
from unhang.knowledge.activities import SingleRankWorkWords, bare_function, single_rank_work_words
from unhang.knowledge.remedies import remedy, store_wait_remedy
from unhang.knowledge.words import Sentences
from unhang.program.syntax.syntax_tree import find_source
from unhang.sentences import Text

CAUSE = Cause.SINGLE_RANK_WORK
tell = Sentences("causes/single-rank-work.toml")
_LOG_REMEDIES = ("reduce-logging", "log-to-local-disk", "log-from-background-thread", "log-to-tracking-server")
"""The cheapest first."""


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """A laggard that is busy with its own work; a straggler; what a guard's error tells."""
    yield from _slows(facts)
    errors = [error for error in guard_errors(facts.tracebacks) if error.said.kind == "slow"]
    yield from (_still_at_work(error) for error in errors[:1])
    for at, work in laggards_doing(facts, OwnWork):
        yield _found(facts, at, work)


def _found(facts: Facts, at: Laggards, work: OwnWork) -> DetectorResult:
    stall, laggards, inside = at.stall, work.cohort, work.inside
    context = laggards.stack_context
    doing = external_wait_reasons.child_text(facts.ranks[stall.laggards[0]]) or _activity_text(laggards)
    if context.tried_again is not None:
        doing = tell("try-again", tries=context.tried_again.tries, line=context.tried_again.line)
    elif context.polled is not None:
        doing = tell("poll", asks=context.polled.asks, line=context.polled.line)
    elif inside is not None and inside.stays:
        doing = tell("at-one-line", place=short_place(inside.where), function=inside.where.function)
    elif inside is not None:
        doing = tell("still-in-loop" if inside.in_while else "busy-in", function=inside.where.function)
    signs = storage_signs(facts, stall.laggards) if writes_or_reads(laggards.phase, laggards.what) else ()
    read = work.named or work.moving or _asks_again(context)
    return stall_signal(
        Grade.SOURCE if read else Grade.STACK,
        _waited_for(facts, stall, doing),
        facts,
        stall,
        whole=not read or (_may_end(facts, work) and _is_seen_whole(facts, stall, laggards)),
        phase=laggards.phase,
        where=inside.where if inside is not None else place_of(facts, stall.laggards[0]),
        because=(
            *_because(stall, doing, moving=work.moving and not work.stands, inside=inside),
            *(_called_by(facts, laggards) if context.polled is not None else ()),
            *external_wait_reasons.because(facts, laggards),
            *machine_reasons.because(signs),
        ),
        more_evidence=(*external_wait_reasons.evidence(facts, laggards), *machine_reasons.evidence(signs)),
        remedies=(*machine_reasons.remedies(signs), *_remedies(facts, stall, laggards, inside)),
    )


def _may_end(facts: Facts, work: OwnWork) -> bool:
    """By itself, as far as can be seen: it does not ask again and again, has left the line, and its child works."""
    goes_on = work.inside is not None and (work.inside.in_while or work.inside.stays)
    if goes_on or _asks_again(work.cohort.stack_context):
        return False
    return not external_wait_reasons.awaits_idle_child(facts, work.cohort)


def _called_by(facts: Facts, laggards: RankCohort) -> Iterator[Text]:
    """With which arguments the function of the loop was called."""
    own = [frame for frame in laggards.frames if is_user_frame(frame, facts.sources)]
    source = find_source(facts.sources, own[1].file) if len(own) > 1 else None
    if source is None or (outer := own[1]).line is None:
        return
    call = call_spelled_on_line(source, outer.line, bare_function(own[0].function))
    if call is not None:
        yield tell("loop-of", call=call, place=f"{PurePosixPath(outer.file).name}:{outer.line}")


def _asks_again(context: StackContext) -> bool:
    return context.polled is not None or context.tried_again is not None


def _is_seen_whole(facts: Facts, stall: Stall, laggards: RankCohort) -> bool:
    if laggards.where is None and _has_lost_callers(facts, stall):
        return False
    locked = laggards.what == "file-lock" and any(facts.ranks[rank].process.awaits.locks for rank in stall.laggards)
    if _own_work_kind(laggards.what).asks and not locked:
        return False  # whoever has to answer may be a rank that waits for this one
    return not _may_have_left_its_loop(laggards)


def _waited_for(facts: Facts, stall: Stall, doing: str | Text) -> Text:
    child = external_wait_reasons.idle_child(facts, stall.laggards[0])
    if child is not None and not is_guard_call(stall.call):
        return tell("waited-with-child", ranks=stall.laggards, pid=child.pid, function=child.where.function)
    return tell(
        "waited-on-store" if is_guard_call(stall.call) else "waited-in-collective",
        ranks=stall.laggards,
        doing=doing,
        guard=operation_of(stall.call),
    )


def _activity_text(laggards: RankCohort) -> str | Text:
    if laggards.where is None:
        return _own_work_kind(laggards.what).said or "working alone"
    if laggards.what == OWN_LOOP:
        return tell("own-batches", function=laggards.where.function)
    return _own_work_kind(laggards.what).said or tell("busy-in", function=laggards.where.function)


def _may_have_left_its_loop(laggards: RankCohort) -> bool:
    """What stands behind a loop is done too early by a rank whose data ran out; only the source tells them apart."""
    return laggards.context is CodeContext.NO_SOURCE and laggards.phase in (Phase.SAVE, Phase.EVAL)


def _has_lost_callers(facts: Facts, stall: Stall) -> bool:
    """Where its work was called from was lost: the others may do the same work, and be done."""
    stacks = (facts.ranks[rank].stack for rank in stall.laggards)
    return any(stack is not None and is_torn(stack) for stack in stacks)


def writes_or_reads(phase: Phase | None, what: str) -> bool:
    """Work that storage may hold up."""
    return phase in (Phase.SAVE, Phase.LOG, Phase.DATA) or _own_work_kind(what).files


def _because(stall: Stall, doing: str | Text, *, moving: bool, inside: UnreturnedCall | None) -> Iterator[Text]:
    if not is_guard_call(stall.call):
        yield tell("not-reached", ranks=stall.laggards, doing=doing)
    if inside is not None:
        yield tell("in-every-look", function=inside.where.function, place=PurePosixPath(inside.called_at).name)
    elif moving:
        yield tell("moves")
    yield from waiters_line(stall)
    indirect = set(stall.waiters) - set(stall.direct_waiters)
    if indirect:
        yield tell("waits-in-turn", indirect=tuple(sorted(indirect)))


def _remedies(facts: Facts, stall: Stall, laggards: RankCohort, inside: UnreturnedCall | None) -> Iterator[Remedy]:
    waiter = stall.call.where if stall.call is not None else None
    outside = tuple(external_wait_reasons.remedies(facts, laggards))
    if outside:
        yield from outside  # it is no work with a result, and a longer limit only waits longer
        return
    polled, where = laggards.stack_context.polled, laggards.where
    if polled is not None and where is not None:
        yield remedy("bound-poll-loop", asks=polled.asks, place=short_place(where), function=where.function)
        return
    if laggards.what == "sleep":
        yield remedy("add-call-timeout", place=short_place(where))
        return
    if why := _why_it_goes_on(laggards, inside):
        yield why  # to share what may never end helps nobody
        return
    place = inside.called_at.rpartition("/")[2] if inside is not None else short_place(where)
    context_manager = main_first_of_stall(facts, stall)
    at_a_barrier = stall.call is not None and is_barrier(stall.call.operation, None)
    if context_manager is not None:
        yield store_wait_remedy(context_manager, waiter)
    if laggards.phase is Phase.LOG:
        yield from map(remedy, _LOG_REMEDIES)
    elif laggards.phase is Phase.SAVE:
        yield remedy("write-from-background-thread", place=place)
    else:
        name = "do-work-before-job" if _own_work_kind(laggards.what).result else "share-work-between-ranks"
        yield remedy(name, place=place)
        if context_manager is None and at_a_barrier:
            yield store_wait_remedy("", waiter)
    if is_guard_call(stall.call):
        return
    yield remedy("raise-timeout-for-rank")


def _why_it_goes_on(laggards: RankCohort, inside: UnreturnedCall | None) -> Remedy | None:
    if inside is None or not (inside.in_while or (inside.stays and laggards.context is not CodeContext.RANK_BRANCH)):
        return None
    if inside.in_while:
        return remedy("find-why-call-goes-on", function=inside.where.function, place=short_place(inside.where))
    return external_wait_reasons.find_why_line_stays(laggards.frames, inside.where)


def _slows(facts: Facts) -> Iterator[DetectorResult]:
    """The straggler of a moving job, where it does work that is not training."""
    straggler = facts.straggler
    if straggler is None or facts.graph.edges or not pace_reasons.is_own_work(straggler.activity):
        return
    activity = straggler.activity
    assert activity is not None
    summary = tell("pace", rank=straggler.rank, doing=_work_between_steps(activity.what, activity.phase))
    signs = storage_signs(facts, (straggler.rank,)) if writes_or_reads(activity.phase, activity.what) else ()
    names = _LOG_REMEDIES if activity.phase is Phase.LOG else ("move-work-off-loop",)
    yield pace_reasons.slow_rank_signal(facts, straggler, summary, signs, *map(remedy, names))


def _work_between_steps(what: str, phase: Phase | None) -> str | Text:
    by_phase = {Phase.SAVE: "saving a checkpoint", Phase.LOG: "writing a log", Phase.EVAL: "evaluating"}
    kind, part = _own_work_kind(what), by_phase.get(phase or Phase.OTHER, "")
    return (part or kind.said if kind.means else kind.said or part) or "working alone"


def _own_work_kind(what: str) -> SingleRankWorkWords:
    return single_rank_work_words().get(what, SingleRankWorkWords())


# ---------------------------------------------------------------------------------------------------
# lines alone


def detect_printed(facts: Facts) -> Iterator[DetectorResult]:
    """From lines alone, where no stack or record shows the rank: `Running tokenizer … 9% [29:55<4:48:08]`, then ranks
    1-3 time out in an all-reduce of one element. Never certain; only suspected where a barrier at the start is all that
    is known, or lines that count nothing."""
    match work_in_lines(facts):
        case SpanningWork() as bar:
            yield _bar(facts, bar)
        case MainProcessWait() as wait:
            yield _main_process_wait(facts, wait)
        case ActiveDuringWait() as active:
            yield _active_during_wait(facts, active)
        case LastLinePhase() as words:
            yield _last_line_phase(facts, words)
        case FirstBarrier():
            yield _first_barrier(facts)


def _bar(facts: Facts, work: SpanningWork) -> Signal:
    """A bar's own clock stands at the others' limit, and it is not done."""
    logged = logged_waits(facts)
    ranks = () if work.rank is None else (work.rank,)
    minutes = work.elapsed_s / 60
    at_barrier = logged is not None and any(wait.barrier for wait in logged.waits)
    return make_signal(
        Grade.ORDER,
        tell(
            "bar-as-long",
            who=tell("who" if ranks else "somebody", ranks=ranks),
            label=work.label,
            minutes=minutes,
            done=work.done,
            total=work.total,
        ),
        ranks=ranks,
        phase=Phase.DATA,
        because=(tell("limit" if work.limit_seen else "torch-limit", limit=work.limit_s), tell("bar-moving")),
        evidence=(work.evidence, *quote_waits(facts)),
        remedies=(
            remedy("prepare-data-before-job"),
            *((store_wait_remedy("", None),) if at_barrier else ()),
            remedy("raise-main-process-timeout"),
        ),
    )


def _main_process_wait(facts: Facts, wait: MainProcessWait) -> Signal:
    """A waiter's traceback ends in a barrier that lets the main process go first."""
    ranks = () if wait.local and wait.waiter is None else (wait.first,)
    bar, by_hand = unfinished_work(facts), ended_by_user(facts)
    return make_signal(
        Grade.STACK,
        tell("main-preparing", ranks=ranks),
        whole=by_hand is None or bar is not None,
        ranks=ranks,
        phase=Phase.DATA,
        waiter_where=wait.where,
        because=(
            tell("waiter-main-first" if wait.waiter is None else "stack-main-first", rank=wait.waiter),
            tell("gave-up" if by_hand is None else "interrupted"),
            *((tell("bar-stood", label=bar.label, done=bar.last_step, total=bar.total),) if bar is not None else ()),
        ),
        evidence=(wait.evidence, *((quote_progress(bar),) if bar is not None else ())),
        remedies=(
            store_wait_remedy(wait.context_manager, wait.where),
            remedy("prepare-data-before-job"),
            remedy("raise-main-process-timeout"),
        ),
    )


def _active_during_wait(facts: Facts, work: ActiveDuringWait) -> Signal:
    """The one rank that did not give up went on writing lines while all others waited."""
    return make_signal(
        Grade.ORDER,
        tell("still-writing", rank=work.rank, after=work.after_s),
        whole=work.counts,  # else another thread may have written them
        ranks=(work.rank,),
        phase=work.phase,
        because=(tell("writes-nothing"), tell("whole-limit", wait=work.wait_s)),
        evidence=(work.evidence, *quote_waits(facts)),
        remedies=(remedy("spread-or-move-work", rank=work.rank), remedy("raise-main-process-timeout")),
    )


def _last_line_phase(facts: Facts, words: LastLinePhase) -> Signal:
    doing = "saving" if words.phase is Phase.SAVE else "evaluating"
    return make_signal(
        Grade.ORDER,
        tell("still-doing" if words.counting else "was-doing", rank=words.rank, doing=doing),
        whole=False,  # whether it worked, waited or had failed is not in the log
        ranks=(words.rank,),
        phase=words.phase,
        because=(
            tell("last-words" if words.time_s is None else "last-line", rank=words.rank),
            tell("bar-not-full" if words.counting else "not-in-log"),
        ),
        evidence=(words.evidence, *quote_waits(facts)),
        remedies=(
            *inspect_ranks(facts, () if words.rank is None else (words.rank,)),
            remedy("raise-main-process-timeout"),
        ),
    )


def _first_barrier(facts: Facts) -> Signal:
    logged = logged_waits(facts)
    return make_signal(
        Grade.BASE_RATE,
        tell("rank0-preparing"),
        ranks=(0,),
        phase=Phase.INIT,
        because=(tell("first-barrier", ranks=logged.ranks if logged is not None else ()), tell("rank0-not-come")),
        evidence=tuple(w.evidence for w in logged.waits[:3]) if logged is not None else (),
        remedies=(
            *inspect_ranks(facts, (0,)),
            remedy("prepare-data-before-job"),
            remedy("raise-main-process-timeout"),
        ),
    )


def _still_at_work(error: ParsedGuardError) -> DetectorResult:
    """Ranks waited in `rank_zero_first`, and the first rank was still at work when the time given was over."""
    return make_signal(
        Grade.STATED,
        tell("still-at-work", ranks=error.said.ranks, waited=error.said.waited_s, guard=error.said.what),
        whole=error.seen_at is not None,  # the line at which it was last seen, working
        ranks=error.said.ranks,
        where=error.seen_at,
        waiter_where=error.raised_at,
        evidence=(error.evidence,),
        remedies=(remedy("extend-guard-timeout", guard=error.said.what),),
    )
