"""rank-conditional-collective: a rank goes on to a collective without the send or receive its partner waits for.

What happens: one stage of a pipeline runs a micro-batch fewer and is already in the step's barrier.
Why it hangs: its partners stand in `recv` or `send` with it, and it waits for them in the collective.
Example: four micro-batches on stages 0, 1 and 3, three on stage 2; then `dist.barrier()`.
Fix: give every stage the same number of micro-batches; decide about skipping together.
Certain when: never: Gloo records no sends, and the partner is read from the line that calls.
Possible when: the partner on that line is worked out from the rank by a simple expression only.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.left_partners import LeftPartners, left_partners
from unhang.facts.model import Facts
from unhang.findings import Cause, Certainty, Phase, say
from unhang.rules.evidence_lines import call_of, group_label, hosts_of, place_of
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.RANK_CONDITIONAL_COLLECTIVE


def check(facts: Facts) -> Iterator[Answer]:
    """Circles in which somebody left its partners behind."""
    for cycle in facts.graph.cycles:
        found = left_partners(facts, cycle)
        if found is not None:
            yield _found(facts, found)


def _found(facts: Facts, found: LeftPartners) -> Answer:
    return finding(
        CAUSE,
        Certainty.LIKELY,
        say(
            "{gone:who} went on to {collective} without its part in {operation}, "
            "which {waiting:who} {waiting:waits|wait} for",
            gone=found.gone,
            collective=found.call.operation,
            operation=found.left.operation,
            waiting=found.waiting,
        ),
        ranks=found.gone,
        nodes=hosts_of(facts, found.gone),
        group=group_label(facts, found.call.group),
        phase=Phase.COMMUNICATION,
        where=place_of(facts, found.gone[0]),
        waiter_where=place_of(facts, found.waiting[0]),
        calls=(*call_of(found.gone, found.call), *call_of(found.waiting[:1], found.left)),
        because=(
            say(
                "{waiting:who} {waiting:is|are} in a send or receive with {gone:who}, "
                "which {gone:stands|stand} in a collective",
                waiting=found.waiting,
                gone=found.gone,
            ),
            say("that collective returns only when they come too: neither side can go on"),
        ),
        evidence=(found.call.evidence, found.left.evidence),
        remedies=(remedy("run-the-same-number-of-sends-and"),),
    )
