"""rank-conditional-collective: a rank went around a call, and waits elsewhere for those who wait for it there.

What happens: its partner waits in a collective of one group; it went on without its part, and waits further down in
another group, or in the collective of all.
Why it hangs: they wait for each other in a circle, although all ranks use the groups in one order.
Example: `if mask.any(): dist.all_reduce(y, group=tp)` with an empty mask on one rank, then the all-reduce of all.
Fix: let every member of the group reach the call, with zeros where it has nothing.
Certain when: never; a call that was queued and not waited for may stand behind the line that is seen.
Possible when: likely, where the source shows both calls one below the other.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import group_label, place_of, waiters_call
from unhang.facts.divergence.skipped_collective import SkippedCollective, skipped_collective
from unhang.facts.model import Facts
from unhang.findings import Cause, Grade, Phase, Remedy
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, say

CAUSE = Cause.RANK_CONDITIONAL_COLLECTIVE


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Circles in which somebody is past the call that it is awaited in."""
    for cycle in facts.graph.cycles:
        around = skipped_collective(facts, cycle)
        if around is not None:
            yield _skipped_call(facts, around)


def _skipped_call(facts: Facts, found: SkippedCollective) -> DetectorResult:
    summary = say(
        "{gone:who} went around {operation} in group {group}, which {waiting:who} {waiting:waits|wait} in",
        gone=found.gone,
        operation=found.left.operation,
        group=group_label(facts, found.left.group),
        waiting=found.waiting,
    )
    mended = remedy("call-on-all-members", operation=found.left.operation)
    return _found(facts, found, found.left.group, summary, tuple(_because(facts, found)), mended)


def _found(
    facts: Facts, found: SkippedCollective, group: str, summary: Text, because: tuple[Text, ...], mended: Remedy
) -> DetectorResult:
    return make_signal(
        CAUSE,
        Grade.SOURCE,
        summary,
        whole=False,
        ranks=found.gone,
        group=group_label(facts, group),
        phase=Phase.COMMUNICATION,
        where=place_of(facts, found.gone[0]),
        waiter_where=place_of(facts, found.waiting[0]),
        calls=(*waiters_call(found.gone, found.call), *waiters_call(found.waiting[:1], found.left)),
        because=because,
        evidence=(found.call.evidence, found.left.evidence),
        remedies=(mended,),
    )


def _because(facts: Facts, found: SkippedCollective) -> Iterator[Text]:
    yield say(
        "{gone:who} {gone:stands|stand} at line {below}, below line {line} of the same block, and has not entered the "
        "call there",
        gone=found.gone,
        below=found.gone_line,
        line=found.line,
    )
    if found.test_line is not None:
        yield say(
            "that call is reached only where line {line} lets it: `{test}`", line=found.test_line, test=found.test
        )
    yield say(
        "there {gone:who} {gone:waits|wait} in group {group} for {waiting:who}: neither side can go on",
        gone=found.gone,
        group=group_label(facts, found.call.group),
        waiting=found.waiting,
    )
