"""single-rank-work: one rank works alone (tokenises, saves, logs, evaluates, downloads) while the others wait.

What happens: one rank, mostly rank 0, does long legitimate work; its stack moves, or stands in a library that works.
Why it hangs: the others are already in the next collective, whose limit runs while that work goes on.
Example: rank 0 tokenises the data set for 40 minutes before a barrier; the others' limit is 30 minutes.
Fix: let every rank do its share, cache the result before the job, move writes off the training thread; or wait without
a collective (on the store or a file) and with a limit that fits.
Certain when: the laggard's stack stands in such work and the others wait for it in a collective, of a save or an
evaluation also its source; or a guard's error names the line at which the rank it waited for was last seen, working.
Possible when: in a job that moves, two looks show the same rank at such work while all others wait; *likely* from many.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.wording import external_wait_reasons, machine_reasons, pace_reasons
from unhang.causes.wording.log_writing_remedies import log_remedies
from unhang.causes.wording.stall_signal import stall_signal, waiters_line
from unhang.causes.wording.store_wait_remedy import store_wait_remedy
from unhang.evidence.stacks.torn_stacks import is_torn
from unhang.facts.collective_operations import is_barrier
from unhang.facts.endings.guard_errors import guard_errors
from unhang.facts.laggard.laggards import laggards_doing
from unhang.facts.laggard.main_process_first import main_first_of_stall
from unhang.facts.laggard.own_work import OWN_LOOP, OwnWork
from unhang.facts.machine.machine_state import storage_signs
from unhang.facts.model import CodeContext, Facts, Stall
from unhang.facts.stacks.rank_cohorts import RankCohort
from unhang.facts.waiting.guard_waits import is_guard_call
from unhang.findings import Cause, Grade, Phase, Remedy
from unhang.knowledge.remedies import remedy
from unhang.knowledge.single_rank_work_words import SingleRankWorkWords, single_rank_work_words
from unhang.sentences import Text, say

CAUSE = Cause.SINGLE_RANK_WORK


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """A laggard that is busy with its own work; a straggler; what a guard's error tells."""
    yield from _slows(facts)
    yield from _guard_gave_up(facts)
    for at, work in laggards_doing(facts, OwnWork):
        yield _found(facts, at.stall, work)


def _found(facts: Facts, stall: Stall, work: OwnWork) -> DetectorResult:
    laggards, moving = work.cohort, work.moving
    doing = _activity_text(laggards)
    known = laggards.what in single_rank_work_words() or laggards.what == OWN_LOOP
    if laggards.stack_context.tried_again is not None:
        doing = say("trying line {line} again and again", line=laggards.stack_context.tried_again)
    known_work = known and laggards.what not in ("compute", "sleep")
    signs = storage_signs(facts, stall.laggards) if writes_or_reads(laggards.phase, laggards.what) else ()
    is_placed = laggards.where is not None or not _has_lost_callers(facts, stall)
    seen_whole = is_placed and not _may_have_left_its_loop(laggards)
    answerer_known = laggards.what == "file-lock" and any(facts.ranks[rank].awaits.locks for rank in stall.laggards)
    if _own_work_kind(laggards.what).asks and not answerer_known:
        seen_whole = False  # whoever has to answer may be a rank that waits for this one
    return stall_signal(
        CAUSE,
        Grade.SOURCE if known_work or moving else Grade.STACK,
        _summary(stall, doing),
        facts,
        stall,
        whole=not (known_work or moving) or seen_whole,
        phase=laggards.phase,
        because=(
            *_because(stall, doing, moving=moving),
            *external_wait_reasons.because(facts, laggards),
            *machine_reasons.because(signs),
        ),
        more_evidence=(*external_wait_reasons.evidence(facts, laggards), *machine_reasons.evidence(signs)),
        remedies=(*machine_reasons.remedies(signs), *_remedies(facts, stall, laggards)),
    )


def _activity_text(laggards: RankCohort) -> str | Text:
    if laggards.where is None:
        return _own_work_kind(laggards.what).said or "working alone"
    if laggards.what == OWN_LOOP:
        return say("going through batches of its own in {function}", function=laggards.where.function)
    return _own_work_kind(laggards.what).said or say("busy in {function}", function=laggards.where.function)


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


def _summary(stall: Stall, doing: str | Text) -> Text:
    if stall.call is not None and is_guard_call(stall.call):
        return say(
            "{ranks:who} {ranks:is|are} {doing}; the others wait for it in {guard}, on the store",
            ranks=stall.laggards,
            doing=doing,
            guard=stall.call.operation,
        )
    return say(
        "{ranks:who} {ranks:is|are} {doing}; the others wait for it in a collective", ranks=stall.laggards, doing=doing
    )


def _because(stall: Stall, doing: str | Text, *, moving: bool) -> Iterator[Text]:
    if not is_guard_call(stall.call):
        yield say(
            "{ranks:who} {ranks:has|have} not reached the collective: its stack shows it {doing}",
            ranks=stall.laggards,
            doing=doing,
        )
    if moving:
        yield say("its stack moves between two looks: it works, it is not stuck")
    yield from waiters_line(stall)
    indirect = set(stall.waiters) - set(stall.direct_waiters)
    if indirect:
        yield say(
            "{indirect:who} {indirect:waits|wait} for those in turn, in other groups", indirect=tuple(sorted(indirect))
        )


def _remedies(facts: Facts, stall: Stall, laggards: RankCohort) -> Iterator[Remedy]:
    waiter = stall.call.where if stall.call is not None else None
    outside = tuple(external_wait_reasons.remedies(facts, laggards))
    if outside:
        yield from outside  # it is no work with a result, and a longer limit only waits longer
        return
    context_manager = main_first_of_stall(facts, stall)
    at_a_barrier = stall.call is not None and is_barrier(stall.call.operation, None)
    if context_manager is not None:
        yield store_wait_remedy(context_manager, waiter)
    if laggards.phase is Phase.LOG:
        yield from log_remedies()
    elif laggards.phase is Phase.SAVE:
        yield remedy("write-from-background-thread")
    else:
        yield remedy("do-work-before-job" if _own_work_kind(laggards.what).result else "share-work-between-ranks")
        if context_manager is None and at_a_barrier:
            yield store_wait_remedy("", waiter)
    if is_guard_call(stall.call):
        return
    yield remedy("raise-timeout-for-rank")


def _slows(facts: Facts) -> Iterator[DetectorResult]:
    """The straggler of a moving job, where it does work that is not training."""
    straggler = facts.straggler
    if straggler is None or facts.graph.edges or not pace_reasons.is_own_work(straggler.activity):
        return
    activity = straggler.activity
    assert activity is not None
    summary = say(
        "the job moves at the pace of rank {rank}, which is {doing} while the others wait for it",
        rank=straggler.rank,
        doing=_work_between_steps(activity.what, activity.phase),
    )
    signs = storage_signs(facts, (straggler.rank,)) if writes_or_reads(activity.phase, activity.what) else ()
    remedies = log_remedies() if activity.phase is Phase.LOG else (remedy("move-work-off-loop"),)
    yield pace_reasons.slow_rank_signal(CAUSE, facts, straggler, summary, signs, *remedies)


def _work_between_steps(what: str, phase: Phase | None) -> str | Text:
    by_phase = {Phase.SAVE: "saving a checkpoint", Phase.LOG: "writing a log", Phase.EVAL: "evaluating"}
    kind, part = _own_work_kind(what), by_phase.get(phase or Phase.OTHER, "")
    return (part or kind.said if kind.means else kind.said or part) or "working alone"


def _own_work_kind(what: str) -> SingleRankWorkWords:
    return single_rank_work_words().get(what, SingleRankWorkWords())


def _guard_gave_up(facts: Facts) -> Iterator[DetectorResult]:
    """Ranks waited in `rank_zero_first`, and the first rank was still at work when the time given was over."""
    error = next((error for error in guard_errors(facts.tracebacks) if error.said.kind == "slow"), None)
    if error is None:
        return
    yield make_signal(
        CAUSE,
        Grade.STATED,
        say(
            "{ranks:who} {ranks:was|were} still at work after {waited:.0f} s, and the others in {guard} gave up",
            ranks=error.said.ranks,
            waited=error.said.waited_s,
            guard=error.said.what,
        ),
        whole=error.seen_at is not None,  # the line at which it was last seen, working
        ranks=error.said.ranks,
        where=error.seen_at,
        waiter_where=error.raised_at,
        evidence=(error.evidence,),
        remedies=(remedy("extend-guard-timeout", guard=error.said.what),),
    )
