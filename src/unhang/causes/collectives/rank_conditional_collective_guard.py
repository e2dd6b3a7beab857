"""rank-conditional-collective: a rank waits in a guard for others that took another way, or the guard gave up on them.

What happens: one rank calls `unhang.together`, `same_on_all_ranks` or another guard where the others go on training.
Why it hangs: the guard waits for the others, and they wait for it in their next collective.
Example: `if rank == 0: save(model)`, with `unhang.together("save")` inside `save`; a barrier inside the block of
`unhang.rank_zero_first`; rank 0 gets `RanksMissing: together('evaluation') …: rank 1 did not come`.
Fix: call the guard on every rank, and no collective inside `rank_zero_first`; a guard raises by itself after its limit.
Certain when: the call of the guard lies in a branch on the rank in the program's source, or its error shows that line.
Possible when: never; likely where there is no such branch: ranks may have come apart in another way, or be late.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import operation_of, waiters_call
from unhang.causes.wording.cohort_signal import cohort_parts
from unhang.facts.endings.guard_errors import ParsedGuardError, guard_errors
from unhang.facts.laggard.laggards import InGuard, Laggards, laggards_doing
from unhang.facts.model import CodeContext, Facts
from unhang.findings import Cause, Grade
from unhang.knowledge.remedies import remedy
from unhang.sentences import say

CAUSE = Cause.RANK_CONDITIONAL_COLLECTIVE
FIRST = "unhang.rank_zero_first"


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Laggards in a guard while those who wait for them stand in a collective; errors of guards to which some did not
    come, unless the guard itself says that they died."""
    for at, inside in laggards_doing(facts, InGuard):
        found = _inside if _is_inside(facts, at, inside.guard) else _found
        yield found(facts, at, inside.guard)
    errors = (error for error in guard_errors(facts.tracebacks) if error.said.kind in ("missing", "apart"))
    yield from (_raised(error) for error in errors if not error.said.partner_died)


def _is_inside(facts: Facts, at: Laggards, guard: str) -> bool:
    """Those in the collective are the ones that work in the block of the guard in which the others wait."""
    if not guard.startswith(FIRST):
        return False
    if any(facts.ranks[rank].marked is not None for rank in at.waiters.ranks):
        return True
    here, there = at.cohort.where, at.waiters.where
    if here is None or there is None or here.line is None or there.line is None:
        return False
    return here.file == there.file and there.line > here.line


def _inside(facts: Facts, at: Laggards, guard: str) -> DetectorResult:
    """The few inside are the odd ones: they call what the others cannot join."""
    stall, laggards, waiters = at.stall, at.cohort, at.waiters
    return make_signal(
        CAUSE,
        Grade.STACK,
        say(
            "{ranks:who} {ranks:calls|call} {operation} inside {guard}; the others wait for the end of that block",
            ranks=waiters.ranks,
            operation=operation_of(stall.call),
            guard=guard,
        ),
        **cohort_parts(facts, waiters, laggards, stall.group),
        calls=waiters_call(stall.direct_waiters, stall.call),
        because=(say("{ranks:who} {ranks:waits|wait} in {guard} and cannot join", ranks=laggards.ranks, guard=guard),),
        remedies=(remedy("move-collective-from-guard"),),
    )


def _found(facts: Facts, at: Laggards, guard: str) -> DetectorResult:
    stall, laggards, waiters = at.stall, at.cohort, at.waiters
    in_branch = laggards.context is CodeContext.RANK_BRANCH
    because = [say("only {ranks:who} {ranks:calls|call} {guard} here", ranks=laggards.ranks, guard=guard)]
    if in_branch and laggards.branch_line is not None:
        because.append(
            say("the way to it leads through the branch on the rank at line {line}", line=laggards.branch_line)
        )
    return make_signal(
        CAUSE,
        Grade.SOURCE,
        say(
            "{ranks:who} {ranks:waits|wait} in {guard} for ranks that are in {operation} and wait for it there",
            ranks=laggards.ranks,
            guard=guard,
            operation=operation_of(stall.call),
        ),
        whole=in_branch,
        **cohort_parts(facts, laggards, waiters, stall.group),
        calls=waiters_call(stall.direct_waiters, stall.call),
        because=tuple(because),
        remedies=(remedy("call-guard-unconditionally", guard=guard),),
    )


def _raised(error: ParsedGuardError) -> DetectorResult:
    said = error.said
    alone = said.came if said.came and len(said.came) <= len(said.ranks) else said.ranks
    return make_signal(
        CAUSE,
        Grade.STATED,
        say(
            "{ranks:who} took another way than the others, who came to {guard} or wait elsewhere",
            ranks=alone,
            guard=said.what,
        )
        if said.kind == "apart" or alone == said.ranks
        else say("{ranks:who} came alone to {guard}; the other ranks took another way", ranks=alone, guard=said.what),
        whole=said.branch is not None,
        ranks=alone,
        where=error.raised_at,
        because=(say("the program lets only some ranks through: {test}", test=said.test),) if said.test else (),
        evidence=(error.evidence,),
        remedies=(remedy("enter-guard-everywhere", guard=said.what),),
    )
