"""network-fault: in a moving job on several nodes: it has grown slow, all ranks wait, and one link is slow.

What happens: steps take longer than before, every rank waits for the others most of the time, none is late.
Why it hangs: it does not; all move at the pace of one link, until a limit is passed.
Example: 1 % of the packets of node h2 are lost; what h1 sends to it and what it sends to h3 stands in the send queues.
Fix: look at that link (cable, switch port, card, its speed), go on without the node meanwhile.
Certain when: never: a slow reader fills the same queues; *likely* when one node is at an end of all that piles up.
Possible when: only the way between two nodes is seen, and either may be at fault.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.network_fault import look_at_links
from unhang.facts.machine_state import network_signs
from unhang.facts.model import AllWait, Facts
from unhang.facts.slow_links import SlowLink, slow_link
from unhang.findings import Cause, Certainty, Evidence, Severity, Text, say
from unhang.rules import machine_lines
from unhang.rules.rule import Answer, finding

CAUSE = Cause.NETWORK_FAULT


def check(facts: Facts) -> Iterator[Answer]:
    """Only where nobody stalls and no rank is late."""
    slow = facts.all_wait
    if slow is None or facts.graph.edges or facts.symmetric or facts.straggler is not None:
        return
    link = slow_link(facts)
    if link is None or not any(known.moving for known in facts.ranks.values()):
        return
    one = len(link.nodes) == 1
    signs = [sign for sign in network_signs(facts) if sign.node in link.nodes]
    yield finding(
        CAUSE,
        Certainty.LIKELY if one else Certainty.POSSIBLE,
        say("the job moves at the pace of the network: the link of {node} is slow", node=link.nodes[0])
        if one
        else say("the job moves at the pace of the network between {nodes}", nodes=", ".join(link.nodes)),
        severity=Severity.SLOWS,
        nodes=link.nodes,
        because=(*_because(slow, link), *machine_lines.because(signs)),
        evidence=(*_evidence(facts, link), *machine_lines.evidence(signs)),
        remedies=(look_at_links(),),
    )


def _because(slow: AllWait, link: SlowLink) -> Iterator[Text]:
    yield say(
        "since about step {step} a step takes {since} s; before, it took {before} s",
        step=slow.change.step,
        since=f"{slow.change.since_s:.2g}",
        before=f"{slow.change.before_s:.2g}",
    )
    yield say(
        "every rank waits in {percent} % of {looks} looks or more: none is late",
        percent=round(100 * slow.waits),
        looks=slow.looks,
    )
    yield say(
        "what {ranks:who} {ranks:sends|send} stands in the send queue most of the time: {ways}",
        ranks=link.ranks,
        ways=", ".join(way.replace(">", " > ") for way in link.ways[:4]),
    )


def _evidence(facts: Facts, link: SlowLink) -> Iterator[Evidence]:
    for rank in link.ranks[:3]:
        known = facts.ranks[rank]
        if known.stack is not None:
            yield Evidence(known.stack.source, ", ".join(known.piled_up[:4]), rank)
