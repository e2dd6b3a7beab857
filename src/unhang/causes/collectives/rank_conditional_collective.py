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
from unhang.causes.evidence_lines import operation_of, place_of
from unhang.causes.wording import path_reasons
from unhang.causes.wording.cohort_signal import calls_of_cohorts, cohort_parts
from unhang.facts.divergence.branch_division import BranchDivision, Division
from unhang.facts.divergence.bypass_paths import BypassPaths
from unhang.facts.divergence.early_loop_exit import EarlyLoopExit, ExitReason
from unhang.facts.laggard.laggards import branch_divisions, early_loop_exits
from unhang.facts.logs.log_statements import first_attempt, quote_events, ranks_of_events
from unhang.facts.model import Facts, Stall
from unhang.facts.stacks.rank_cohorts import (
    RankCohort,
)
from unhang.findings import Cause, Grade
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, say

CAUSE = Cause.RANK_CONDITIONAL_COLLECTIVE


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """One cohort's call site lies in a branch on the rank; or a rank went around calls of an earlier step."""
    yield from (_divided(facts, division) for division in branch_divisions(facts))
    for left in early_loop_exits(facts):
        if left.around is not None and left.reason is ExitReason.OWN_DECISION:
            yield _jumped_out(facts, left, left.around)
        elif left.around is not None and left.reason is ExitReason.SKIPPED_ITERATION:
            yield _skipped_iteration(facts, left, left.around)
    yield from _unused_parameters(facts)


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


def _divided(facts: Facts, division: BranchDivision) -> DetectorResult:
    odd, others = division.odd
    group_setup = isinstance(division.divided_by, Stall) and division.inside.ranks == division.divided_by.laggards
    if division.bound is not None:
        loop, bound = division.bound
        mended = remedy("decide-exit-together", file=loop.file, line=bound.line, test=bound.test)
    elif division.inside.branch_line is None:
        mended = remedy("move-collective-unknown-branch")
    else:
        mended = remedy("move-collective-from-branch", branch=division.inside.branch_line)
    return make_signal(
        CAUSE,
        Grade.SOURCE,
        _summary(division),
        whole=division.whole,
        **cohort_parts(facts, odd, others, division.divided_by.group),
        calls=() if group_setup else calls_of_cohorts(division.divided_by),
        because=_because(division.inside, division.outside),
        remedies=(mended,),
    )


def _summary(division: BranchDivision) -> Text:
    inside, outside = division.inside, division.outside
    if division.bound is not None:
        return say(
            "{ranks:who} left the loop at line {line} under a test of the rank; the others are still in it",
            ranks=outside.ranks,
            line=division.bound[1].line,
        )
    if division.kind is Division.ENTERED_ALONE:
        return say(
            "{ranks:who} {ranks:calls|call} {operation} inside a branch on the rank; the others never do",
            ranks=inside.ranks,
            operation="new_group" if inside.what == "group-setup" else operation_of(inside.call),
        )
    return say(
        "{ranks:who} never {ranks:reaches|reach} {operation}: a branch on the rank leads around it",
        ranks=outside.ranks,
        operation=operation_of(inside.call),
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
