"""network-fault: counters of the machine tell that the way between nodes failed while all ranks waited.

What happens: all ranks joined a collective, none finished it; meanwhile a link was lost, or packets were sent again.
Why it hangs: what a rank sent does not arrive; the library waits for ever, or until its own limit.
Example: eth1 of node h7 lost its link twice; 38 % of the TCP segments of h3 had to be sent again.
Fix: look at that link (cable, switch port, card), start again without the node; the program is not at fault.
Certain when: never from counters alone; *likely* when a link was lost or many segments were sent again.
Possible when: an interface only counted errors.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.network_fault import look_at_links
from unhang.facts.machine_state import Sign, network_signs
from unhang.facts.model import Facts
from unhang.findings import Cause, Certainty, Text, say
from unhang.rules import machine_lines, transport_lines
from unhang.rules.evidence_lines import group_label
from unhang.rules.rule import Answer, finding

CAUSE = Cause.NETWORK_FAULT


def check(facts: Facts) -> Iterator[Answer]:
    """Where all joined and nobody is behind: a link that was lost, segments sent again, errors of an interface."""
    if facts.graph.edges or not facts.symmetric:
        return
    signs = sorted(network_signs(facts), key=lambda sign: sign.kind == "link-errors")
    if not signs:
        return
    stall = facts.symmetric[0]
    yield finding(
        CAUSE,
        Certainty.POSSIBLE if signs[0].kind == "link-errors" else Certainty.LIKELY,
        _summary(signs[0]),
        nodes=tuple(dict.fromkeys(sign.node for sign in signs)),
        group=group_label(facts, stall.group),
        because=(
            *machine_lines.because(signs),
            *transport_lines.ways(facts),
            say(
                "every member of the group issued the same call with the same shape: no line of the program explains it"
            ),
        ),
        evidence=machine_lines.evidence(signs),
        remedies=(look_at_links(),),
    )


def _summary(sign: Sign) -> Text:
    if sign.kind == "link-lost":
        return say(
            "the network failed: the link of {link} on {node} was lost", link=sign.values["link"], node=sign.node
        )
    if sign.kind == "sent-again":
        return say(
            "the network fails: {percent} % of what {node} sends has to be sent again",
            percent=sign.values["percent"],
            node=sign.node,
        )
    return say("possible: {link} on {node} counts errors", link=sign.values["link"], node=sign.node)
