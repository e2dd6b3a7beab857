"""Sentences on the branches, jumps and handlers that take one rank out of a loop, or around a step, by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.causes.evidence_lines import operation_of
from unhang.facts.divergence.branch_division import BranchDivision, Division
from unhang.facts.divergence.bypass_paths import BypassPath, BypassPaths
from unhang.facts.stacks.rank_cohorts import RankCohort
from unhang.findings import Remedy, RemedyKind, Where
from unhang.sentences import Text, say

MAX_TOLD = 3


def cohort_places(past: RankCohort, inside: RankCohort, loop: int | None, where: Where | None) -> Iterator[Text]:
    """Where each cohort is, with the loop between them."""
    if past.ended:
        yield say("{ranks:who} {ranks:has|have} ended with exit code 0, as if all were done", ranks=past.ranks)
    elif past.where is not None:
        yield say(
            "{ranks:who} {ranks:stands|stand} at line {line}, after the loop", ranks=past.ranks, line=past.where.line
        )
    if where is not None:
        yield say(
            "{ranks:who} {ranks:waits|wait} at line {line}, inside the loop that starts at line {loop}",
            ranks=inside.ranks,
            line=where.line,
            loop=loop,
        )


def division_summary(division: BranchDivision) -> Text:
    """Who took another way than the others."""
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


def branch_reasons(inside: RankCohort, outside: RankCohort) -> Iterator[Text]:
    """Where each cohort is, with the branch on the rank between them."""
    if inside.where is not None:
        yield say(
            "{file}:{line} is reached only through the branch on the rank at line {branch}",
            file=inside.where.file,
            line=inside.where.line,
            branch=inside.branch_line,
        )
    if outside.where is not None:
        yield say(
            "{ranks:who} {ranks:stands|stand} at {file}:{line} instead",
            ranks=outside.ranks,
            file=outside.where.file,
            line=outside.where.line,
        )
    elif outside.ended:
        yield say("{ranks:who} {ranks:has|have} ended with exit code 0", ranks=outside.ranks)


def equal_iterations_reason(around: BypassPaths) -> Text:
    """Why it is not the data."""
    return say(
        "the loop at line {line} runs equally often on all ranks, so it is not the data that ended",
        line=around.loop.line,
    )


def not_the_data_reason(around: BypassPaths) -> Text:
    """Of a loop that a jump left."""
    if around.has_equal_rounds:
        return equal_iterations_reason(around)
    if around.over_data:
        return say(
            "the loop at line {line} goes over no data; one inside it does, which only in the last round could end it "
            "earlier on one rank",
            line=around.loop.line,
        )
    return say(
        "the loop at line {line} goes on until something leaves it, so it is not the data that ended",
        line=around.loop.line,
    )


def path_sentences(ways: Sequence[BypassPath]) -> Iterator[Text]:
    """One sentence a way, the first few."""
    for way in ways[:MAX_TOLD]:
        if way.kind == "except":
            yield say(
                "line {line} handles exceptions of one rank alone and goes on: what was left of that step never ran",
                line=way.where.line,
            )
        elif way.kind == "while":
            yield say(
                "the loop at line {line} goes on for as long as each rank finds by itself: `{test}`",
                line=way.where.line,
                test=way.test,
            )
        elif not way.leaves:
            yield say(
                "line {line} skips the rest of a step on a value of the rank's own: `{test}`",
                line=way.where.line,
                test=way.test,
            )
        else:
            yield say(
                "line {line} leaves the loop ({jump}) on a value of the rank's own: `{test}`",
                line=way.where.line,
                jump=way.kind,
                test=way.test,
            )


def decide_together_remedies(ways: Sequence[BypassPath]) -> Iterator[Remedy]:
    """What to change at the first of them."""
    if not ways:
        return
    yield Remedy(
        title=say(
            "Let all ranks decide it together at {file}:{line}", file=ways[0].where.file, line=ways[0].where.line
        ),
        kind=RemedyKind.CODE,
        change=_raise_on_all() if ways[0].kind == "except" else _reduce_the_flag(),
        cost=say("one small all-reduce a step"),
        verify=say("every rank prints the same number of steps made"),
    )


def _reduce_the_flag() -> Text:
    return say(
        "flag = torch.tensor(float(TEST)); dist.all_reduce(flag, op=dist.ReduceOp.MAX); if flag.item(): then all ranks "
        "jump in the same step"
    )


def _raise_on_all() -> Text:
    return say(
        "catch only around what fails (the read), and before the step dist.all_reduce(failed, op=dist.ReduceOp.MAX): "
        "then all ranks skip it; or let the exception end the job"
    )
