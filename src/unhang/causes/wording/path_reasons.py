"""What a signal says of ranks that took another way: the branches, jumps and handlers that lead one rank out of a
loop or around a step by itself, and of those that have gone on without their part in a call for which others wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from unhang.causes.evidence_lines import (
    group_label,
    hosts_of,
    operation_of,
    place_of,
    quote_rank,
    short_place,
    waiters_call,
)
from unhang.facts.collective_operations import may_be_recorded_as
from unhang.facts.divergence.branch_division import BranchDivision, Division
from unhang.facts.divergence.bypass_paths import BypassPath, BypassPaths
from unhang.facts.divergence.other_ways import CallOfSome
from unhang.facts.divergence.skipped_calls import ExtraCall, SkippedCollective, UnmatchedP2P
from unhang.facts.model import Facts
from unhang.facts.stacks.rank_cohorts import RankCohort
from unhang.findings import Phase, Remedy, Where
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences
from unhang.program.rank_dependence.rank_dependent_rounds import RankBound
from unhang.program.syntax.syntax_tree import call_name, expression_text, find_line, find_source
from unhang.sentences import Text, shortened

tell = Sentences("causes/shared.toml")
MAX_TOLD = 3
MAX_CODE = 40


def cohort_places(past: RankCohort, inside: RankCohort, loop: int | None, where: Where | None) -> Iterator[Text]:
    """Where each cohort is, with the loop between them."""
    if past.ended:
        yield tell("ended-as-done", ranks=past.ranks)
    elif past.where is not None:
        yield tell("after-loop", ranks=past.ranks, line=past.where.line)
    if where is not None:
        yield tell("inside-loop", ranks=inside.ranks, line=where.line, loop=loop)


def division_summary(division: BranchDivision) -> Text:
    """Who took another way than the others."""
    inside, outside = division.inside, division.outside
    if division.bound is not None:
        return tell("left-under-test", ranks=outside.ranks, line=division.bound[1].line)
    if division.kind is Division.ENTERED_ALONE:
        return tell(
            "calls-in-branch",
            ranks=inside.ranks,
            operation="new_group" if inside.what == "group-setup" else operation_of(inside.call),
        )
    return tell("never-reaches", ranks=outside.ranks, operation=operation_of(inside.call))


def branch_reasons(inside: RankCohort, outside: RankCohort) -> Iterator[Text]:
    """Where each cohort is, with the branch on the rank between them."""
    if inside.where is not None:
        yield tell("through-branch", file=inside.where.file, line=inside.where.line, branch=inside.branch_line)
    if outside.where is not None:
        yield tell("stands-instead", ranks=outside.ranks, file=outside.where.file, line=outside.where.line)
    elif outside.ended:
        yield tell("ended", ranks=outside.ranks)


def equal_iterations_reason(around: BypassPaths) -> Text:
    """Why it is not the data."""
    return tell("equal-rounds", line=around.loop.line)


def not_the_data_reason(around: BypassPaths) -> Text:
    """Of a loop that a jump left."""
    if around.has_equal_rounds:
        return equal_iterations_reason(around)
    return tell("no-data-loop" if around.over_data else "endless-loop", line=around.loop.line)


def path_sentences(ways: Sequence[BypassPath]) -> Iterator[Text]:
    """One sentence a way, the first few."""
    for way in ways[:MAX_TOLD]:
        if way.kind == "except":
            yield tell("handles-exception", line=way.where.line)
        elif way.kind == "__del__":
            yield tell("freed-by-itself", function=way.where.function)
        elif way.kind == "if":
            yield tell("reached-only-where", line=way.where.line, test=way.test)
        elif way.kind == "while":
            yield tell("own-condition", line=way.where.line, test=way.test)
        elif not way.leaves:
            yield tell("skips-rest", line=way.where.line, test=way.test)
        else:
            yield tell("leaves-loop", line=way.where.line, jump=way.kind, test=way.test)


def decide_bound_together(loop: Where, bound: RankBound) -> Remedy:
    """What to change at the test of the rank that leaves ``loop``."""
    place = short_place(replace(loop, line=bound.line))
    return _decide_jump_together(place, bound.test, bound.kind)


def _decide_jump_together(place: str, test: str, kind: str, *, alone: bool = False) -> Remedy:
    """So that all go the way of one: the test holds for who jumped, or went into a branch ``alone``."""
    operator = "MAX" if (kind in ("if", "while")) == alone else "MIN"
    return remedy("decide-jump-together", place=place, test=test, jump=kind, operator=operator)


def decide_together_remedies(ways: Sequence[BypassPath], *, alone: bool = False) -> Iterator[Remedy]:
    """What to change at the first of them. ``alone``: who went on without the calls is not the odd one."""
    if not ways:
        return
    way, place = ways[0], short_place(ways[0].where)
    if way.kind == "except":
        yield remedy("decide-failure-together", place=place)
    elif way.kind == "__del__":
        yield remedy("close-before-freed", place=place)
    else:
        yield _decide_jump_together(place, way.test, way.kind, alone=alone)


def line_of_some(facts: Facts, call: CallOfSome | None, ranks: tuple[int, ...], others: tuple[int, ...]) -> Text | None:
    """That ``ranks`` made the call without ``others``, or went on without it, by the line that makes it; None without
    source, or where all are below that line."""
    if call is not None and call.is_inside_line and call.around and call.around[0].kind == "if":
        way, made = call.around[0], call.made.ranks
        test = shortened(way.test, MAX_CODE)
        return tell("passed-test", ranks=made, others=call.without.ranks, line=way.where.line, test=test)
    at = call.made.where if call is not None and not call.is_inside_line else None
    code = _code_of(facts, at, operation_of(call.made.call)) if call is not None and at is not None else ""
    if call is None or at is None or not code:
        return None
    there = call.without.where
    if call.unsure and there is not None:
        return tell("at-other-line", ranks=ranks, others=others, line=at.line, there=there.line)
    alone, said = set(call.made.ranks) <= set(ranks), {"ranks": ranks, "others": others, "line": at.line}
    if alone and call.came_out is not None:
        left = shortened(_code_of(facts, call.came_out, ""), MAX_CODE)
        return tell("came-out", ranks=ranks, others=others, code=left, line=call.came_out.line)
    return tell("called-alone" if alone else "skipped-line", **said, code=shortened(code, MAX_CODE))


def _code_of(facts: Facts, at: Where, operation: str) -> str:
    """The call of ``operation`` on that line, else all of the line; empty without source."""
    place, source = find_line(facts.sources, at.file, at.line), find_source(facts.sources, at.file)
    if place is None or source is None or at.line is None:
        return ""
    made = (node for node in place.calls(at.line) if may_be_recorded_as(call_name(node), operation))
    call = next(made, None)
    return expression_text(call) if call is not None else source.text.splitlines()[at.line - 1].strip()


def call_reasons(call: CallOfSome, *, skipped: bool, in_order: bool = False) -> Iterator[Text]:
    """What leads around it, how those are told who left the common order (``in_order``), and where they are who went on
    without it."""
    at, around = call.without.where, call.around
    if call.in_thread:
        yield tell("made-in-thread")
    yield from path_sentences([one for one in around if skipped or one.kind == around[0].kind])
    if in_order:
        yield tell("was-next" if skipped else "was-not-next")
    if at is not None:
        yield tell("stands-instead", ranks=call.without.ranks, file=at.file, line=at.line)


def call_remedies(call: CallOfSome | None, *, skipped: bool) -> Iterator[Remedy]:
    """What to change at the test or jump that divides them; without source, what to look for."""
    around = call.around if call is not None else ()
    if call is not None and call.in_thread and call.made.where is not None:
        yield remedy("use-group-per-thread", thread=call.made.where.function)
    elif not around:
        yield _find_why_apart(call)
    yield from decide_together_remedies(around, alone=not skipped)
    if (
        around
        and around[0].kind == "if"
        and not skipped
        and call is not None
        and not (call.is_inside_line or call.in_thread)
    ):
        yield remedy("move-collective-from-branch", branch=around[0].where.line)


def _find_why_apart(call: CallOfSome | None) -> Remedy:
    if call is None or call.made.where is None or call.without.where is None:
        return remedy("issue-same-collectives")
    return remedy(
        "find-why-ranks-part",
        ranks=call.made.ranks,
        place=short_place(call.made.where),
        others=call.without.ranks,
        other=short_place(call.without.where),
    )


def unmatched_summary(found: UnmatchedP2P) -> Text:
    """Who went on where, and who waits for what."""
    return tell(
        "ended-without-part" if found.operation is None else "went-on",
        gone=found.gone,
        next=found.operation,
        operation=found.left.operation,
        waiting=found.waiting,
    )


def unmatched_parts(facts: Facts, found: UnmatchedP2P) -> dict[str, Any]:
    """The parts of a finding on a send or receive without its other half."""
    group = found.call.group if found.call is not None else found.group
    return _parts(facts, found, group, _because(found), remedy("equalize-sends-and-receives"))


def skipped_call_parts(facts: Facts, found: SkippedCollective) -> dict[str, Any]:
    """The parts of a finding on a collective that some went around."""
    jumped = bool(found.around) and found.around[0].kind != "if"
    together = decide_together_remedies(found.around if jumped else ())
    all_members = remedy("call-on-all-members", operation=found.left.operation, place=short_place(found.left.where))
    return _parts(facts, found, found.left.group, _because_skipped(facts, found), *together, all_members)


def extra_call_parts(facts: Facts, found: ExtraCall) -> dict[str, Any]:
    """The summary and the parts of a finding on a call that one rank made besides."""
    at, others = found.call.where or found.matched, found.others
    said = {"ranks": (found.rank,), "others": others, "line": at.line}
    made = shortened(_code_of(facts, at, found.call.operation) or found.call.operation, MAX_CODE)
    group = group_label(facts, found.call.group)
    return {
        "summary": tell("called-alone", **said, code=made),
        "whole": False,
        "ranks": (found.rank,),
        "nodes": hosts_of(facts, (found.rank,)),
        "group": group,
        "phase": Phase.COMMUNICATION,
        "where": at,
        "waiter_where": place_of(facts, others[0]),
        "calls": waiters_call((found.rank,), found.call),
        "because": (
            tell("taken-for-it", **said, group=group, at=found.matched.line),
            *path_sentences(found.around),
        ),
        "evidence": (found.call.evidence,),
        "remedies": tuple(decide_together_remedies(found.around, alone=True)) or (remedy("issue-same-collectives"),),
    }


def _parts(
    facts: Facts, found: UnmatchedP2P | SkippedCollective, group: str, because: Iterable[Text], *mended: Remedy
) -> dict[str, Any]:
    """Never whole: no record counts sends and receives, and a call that was queued may be behind the line seen."""
    stands = [found.call.evidence] if found.call is not None else quote_rank(facts.ranks[found.gone[0]])[:1]
    return {
        "whole": False,
        "ranks": found.gone,
        "nodes": hosts_of(facts, found.gone),
        "group": group_label(facts, group),
        "phase": Phase.COMMUNICATION,
        "where": place_of(facts, found.gone[0]),
        "waiter_where": place_of(facts, found.waiting[0]),
        "calls": (*waiters_call(found.gone, found.call), *waiters_call(found.waiting[:1], found.left)),
        "because": tuple(because),
        "evidence": (*stands, found.left.evidence),
        "remedies": mended,
    }


def _because(found: UnmatchedP2P) -> Iterator[Text]:
    if found.operation is None:
        yield tell("ended-as-done", ranks=found.gone)
        return
    if found.past_line is not None:
        yield tell("had-part", gone=found.gone, line=found.past_line)
    else:
        yield tell("p2p-against-collective", waiting=found.waiting, gone=found.gone)
    if found.past_test:
        yield tell("only-where", gone=found.gone, test=found.past_test)
    yield tell("neither-goes-on")


def _because_skipped(facts: Facts, found: SkippedCollective) -> Iterator[Text]:
    yield tell("stands-below", gone=found.gone, below=found.gone_line, line=found.line)
    yield from path_sentences(found.around)
    yield tell("waits-there-too", gone=found.gone, group=group_label(facts, found.call.group), waiting=found.waiting)
