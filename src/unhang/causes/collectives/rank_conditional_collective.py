"""rank-conditional-collective: a collective that only some ranks reach, because the way to it depends on the rank.

What happens: a collective (or a sharded forward, a state dict, a save, an evaluation) stands inside `if rank == 0:` or
after a rank-dependent `continue` or `return`; or a `continue`, a handler or a test on its own data led it around the
collectives of an earlier step, and it is ahead of the others since.
Why it hangs: those inside wait for partners that are outside the branch and never come.
Example: `if rank == 0: evaluate(model)` with a DDP or FSDP model, or a metric reduced on rank 0 only;
`if not torch.isfinite(loss): continue` before `loss.backward()`.
Fix: move the collective out of the branch; let all ranks compute and only one print or write. Decide about skipping
together: all-reduce the flag before the test.
Certain when: the call site of one side lies in a branch on the rank in the program's source; or DDP names it itself.
Possible when: no source tells which step a rank skipped; likely where it shows a loop of equal rounds and no way out.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import calls_of_mismatch, operation_of, place_of, waiters_call
from unhang.causes.wording import path_reasons
from unhang.causes.wording.cohort_signal import calls_of_cohorts, cohort_parts
from unhang.facts.collective_operations import POINT_TO_POINT
from unhang.facts.divergence.aborted_in_call import laggards_wait_elsewhere
from unhang.facts.divergence.bypass_paths import BypassPaths
from unhang.facts.divergence.early_loop_exit import EarlyLoopExit, exits_unrelated_to_data
from unhang.facts.divergence.rank_dependent_loop_exit import has_rank_dependent_rounds, rank_bounds_between
from unhang.facts.logs.log_statements import first_attempt, quote_events, ranks_of_events
from unhang.facts.model import CodeContext, Facts, RankState, Stall
from unhang.facts.stacks.rank_cohorts import (
    RankCohort,
    branch_excludes,
    cohorts_of_mismatch,
    cohorts_of_stall,
    is_minority_inside,
)
from unhang.findings import Call, Cause, Grade, Phase, Remedy, Where
from unhang.knowledge.remedies import remedy
from unhang.program.rank_dependence.rank_dependent_rounds import RankBound
from unhang.sentences import Text, say

CAUSE = Cause.RANK_CONDITIONAL_COLLECTIVE


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """One cohort's call site lies in a branch on the rank; or a rank went around calls of an earlier step."""
    for mismatch in facts.mismatches:
        cohorts = cohorts_of_mismatch(facts, mismatch)
        inside = [c for c in cohorts if c.context is CodeContext.RANK_BRANCH]
        outside = [c for c in cohorts if c.context is not CodeContext.RANK_BRANCH]
        calls, group = calls_of_mismatch(mismatch), mismatch.group
        if inside and outside:
            yield from _divided(facts, outside[0], inside[0], calls, group)
        elif len(inside) == len(cohorts) >= 2:
            yield from _all_inside(facts, inside, calls, group)
    for stall in facts.stalls:
        yield from _of_stall(facts, stall)
    for left in exits_unrelated_to_data(facts):
        if left.around is not None:
            yield (_jumped_out if left.is_own_decision else _skipped_iteration)(facts, left, left.around)
    yield from _unused_parameters(facts)


def _divided(
    facts: Facts, outside: RankCohort, inside: RankCohort, calls: tuple[Call, ...], group: str
) -> Iterator[DetectorResult]:
    """Those inside the branch, and those who wait elsewhere. Rounds that the rank settled beforehand are no branch."""
    if has_rank_dependent_rounds(facts, outside, inside):
        return
    if (told := _jump_of(facts, outside, inside)) is not None:
        yield _left_loop_by_rank(facts, outside, inside, calls, group, told)
    elif is_minority_inside(inside, outside, facts.world_size):
        yield _entered_alone(facts, inside, outside, calls, group)
    else:
        yield _skipped_by_branch(facts, outside, inside, calls, group)


def _all_inside(
    facts: Facts, cohorts: list[RankCohort], calls: tuple[Call, ...], group: str
) -> Iterator[DetectorResult]:
    """Of two arms the one with fewer ranks is odd. In one and the same arm nobody has entered alone: those whom the
    branch leads around it at times have gone around a call in an earlier step."""
    if len({(c.where.file if c.where is not None else "", c.stack_context.branch) for c in cohorts}) > 1:
        smaller, bigger = _smaller_and_other(cohorts, cohorts)
        yield _entered_alone(facts, smaller, bigger, calls, group)
        return
    led_around = [c for c in cohorts if branch_excludes(c, c.ranks, facts.world_size)]
    if not led_around:
        return
    laggards, waiters = _smaller_and_other(led_around, cohorts)
    yield _skipped_by_branch(facts, laggards, waiters, calls, group, whole=len(led_around) == 1)


def _smaller_and_other(among: list[RankCohort], cohorts: list[RankCohort]) -> tuple[RankCohort, RankCohort]:
    smaller = min(among, key=lambda c: (len(c.ranks), c.ranks))
    return smaller, next(c for c in cohorts if c is not smaller)


def _unused_parameters(facts: Facts) -> Iterator[DetectorResult]:
    """DDP's own word: parameters that got no gradient on some ranks, whose reduction the others wait for."""
    events = first_attempt(facts.events_of("ddp.unused"))
    if not events:
        return
    ranks = ranks_of_events(events)
    yield make_signal(
        CAUSE,
        Grade.STATED,
        say("DDP waits for gradients of parameters that {ranks:who} did not use in this step", ranks=ranks)
        if ranks
        else say("DDP waits for gradients of parameters that a rank did not use in this step"),
        ranks=ranks,
        where=place_of(facts, ranks[0]) if ranks else None,
        because=(say("DDP raised it itself: the reduction of the step before has not finished"),),
        evidence=quote_events(events),
        remedies=(remedy("handle-unused-parameters"),),
    )


def _of_stall(facts: Facts, stall: Stall) -> Iterator[DetectorResult]:
    """Waiters inside a branch that the laggards have gone around for good."""
    laggards, waiters = cohorts_of_stall(facts, stall)
    if (
        laggards.what == "group-setup"
        and laggards.context is CodeContext.RANK_BRANCH
        and laggards.branch_line != waiters.branch_line
    ):
        # Making a group needs every rank of the job, not only those that will be in it.
        yield _entered_alone(facts, laggards, waiters, (), stall.group)
        return
    if waiters.context is not CodeContext.RANK_BRANCH or not _will_not_come(facts, stall, laggards):
        return
    if stall.call is not None and stall.call.operation in POINT_TO_POINT:
        return  # the halves of a send stand in different arms of a branch on the rank wherever there is one
    if branch_excludes(waiters, stall.laggards, facts.world_size):
        yield from _divided(facts, laggards, waiters, waiters_call(waiters.ranks, stall.call), stall.group)


def _will_not_come(facts: Facts, stall: Stall, laggards: RankCohort) -> bool:
    """The laggards will not come: they have ended, are in another call, or at the end; work they do would end."""
    states = {facts.ranks[rank].state for rank in stall.laggards}
    if RankState.STOPPED in states:
        return False
    if laggards_wait_elsewhere(facts, stall):
        return True  # also where Gloo ended them in it
    if states & {RankState.CRASHED, RankState.ENDED_WITH_OTHERS}:
        return False
    if stall.reason == "silent":
        return False
    return (
        laggards.ended
        or laggards.phase in (Phase.SHUTDOWN, Phase.COMMUNICATION)
        or laggards.context is CodeContext.AFTER_LOOP
    )


def _entered_alone(
    facts: Facts, inside: RankCohort, outside: RankCohort, calls: tuple[Call, ...], group: str
) -> DetectorResult:
    summary = say(
        "{ranks:who} {ranks:calls|call} {operation} inside a branch on the rank; the others never do",
        ranks=inside.ranks,
        operation="new_group" if inside.what == "group-setup" else operation_of(inside.call),
    )
    return make_signal(
        CAUSE,
        Grade.SOURCE,
        summary,
        **cohort_parts(facts, inside, outside, group),
        calls=calls,
        because=_because(inside, outside),
        remedies=(_move_out(inside.branch_line),),
    )


def _skipped_by_branch(
    facts: Facts, laggards: RankCohort, waiters: RankCohort, calls: tuple[Call, ...], group: str, *, whole: bool = True
) -> DetectorResult:
    return make_signal(
        CAUSE,
        Grade.SOURCE,
        say(
            "{ranks:who} never {ranks:reaches|reach} {operation}: a branch on the rank leads around it",
            ranks=laggards.ranks,
            operation=operation_of(waiters.call),
        ),
        whole=whole,
        **cohort_parts(facts, laggards, waiters, group),
        calls=calls,
        because=_because(waiters, laggards),
        remedies=(_move_out(waiters.branch_line),),
    )


def _jump_of(facts: Facts, past: RankCohort, inside: RankCohort) -> tuple[Where, RankBound] | None:
    """The jump by which ``past`` left the loop around ``inside``, on what a rank of its kind finds out there."""
    told = rank_bounds_between(facts, past, inside)
    return next((one for one in told if one[1].kind != "loop" and one[1].depends_on == "finding"), None)


def _left_loop_by_rank(
    facts: Facts,
    past: RankCohort,
    inside: RankCohort,
    calls: tuple[Call, ...],
    group: str,
    told: tuple[Where, RankBound],
) -> DetectorResult:
    loop, bound = told
    return make_signal(
        CAUSE,
        Grade.SOURCE,
        say(
            "{ranks:who} left the loop at line {line} under a test of the rank; the others are still in it",
            ranks=past.ranks,
            line=bound.line,
        ),
        **cohort_parts(facts, past, inside, group),
        calls=calls,
        because=_because(inside, past),
        remedies=(remedy("decide-exit-together", file=loop.file, line=bound.line, test=bound.test),),
    )


def _jumped_out(facts: Facts, left: EarlyLoopExit, around: BypassPaths) -> DetectorResult:
    """Out of a loop that no data end, on a value that each rank finds by itself. A loop over data inside that one makes
    it less sure: the last round of all may have been shorter."""
    jump = around.jumps[0]
    return make_signal(
        CAUSE,
        left.grade,
        say(
            "{ranks:who} left the loop at line {line} on a value of {ranks:its|their} own; the others are still in it",
            ranks=left.past.ranks,
            line=jump.where.line,
        )
        if len(around.jumps) == 1
        else say(
            "{ranks:who} left the loop on a value of {ranks:its|their} own; the others are still in it",
            ranks=left.past.ranks,
        ),
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
        CAUSE,
        left.grade,
        say(
            "{ranks:who} went around collectives of an earlier step, and left the loop before the others",
            ranks=left.past.ranks,
        ),
        whole=False,
        **cohort_parts(facts, left.past, left.inside, left.group),
        because=(path_reasons.equal_iterations_reason(around), *path_reasons.path_sentences(around.ways)),
        remedies=tuple(path_reasons.decide_together_remedies(around.ways)) or (remedy("issue-same-step-collectives"),),
    )


def _because(inside: RankCohort, outside: RankCohort) -> tuple[Text, ...]:
    lines: list[Text] = []
    if inside.where is not None:
        lines.append(
            say(
                "{file}:{line} is reached only through the branch on the rank at line {branch}",
                file=inside.where.file,
                line=inside.where.line,
                branch=inside.branch_line,
            )
        )
    if outside.where is not None:
        lines.append(
            say(
                "{ranks:who} {ranks:stands|stand} at {file}:{line} instead",
                ranks=outside.ranks,
                file=outside.where.file,
                line=outside.where.line,
            )
        )
    elif outside.ended:
        lines.append(say("{ranks:who} {ranks:has|have} ended with exit code 0", ranks=outside.ranks))
    return tuple(lines)


def _move_out(branch: int | None) -> Remedy:
    if branch is None:
        return remedy("move-collective-unknown-branch")
    return remedy("move-collective-from-branch", branch=branch)
