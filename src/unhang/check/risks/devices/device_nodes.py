"""Nodes have different cards.

What happens: one node has fewer cards, or cards of another kind, than the others.

Why it hangs: a launcher that starts as many processes everywhere fails on the node with fewer cards; slower cards make
all others wait in every step.

Example: seven of eight cards on one node after one fell off the bus.

Fix: leave the node out until it is like the others.

Certain when: never; a job may be meant for a mixture.

Possible when: several nodes were asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from unhang.check.devices.chosen_cards import find_chosen_cards
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import say

CHECK = "devices"


def compare(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """What most nodes have is right."""
    nodes: dict[str, str] = {}
    for situation in situations:
        chosen = find_chosen_cards(situation)
        if chosen is not None and situation.node not in nodes:
            kinds = Counter(card.name for card in chosen.visible)
            nodes[situation.node] = ", ".join(f"{count} × {name}" for name, count in sorted(kinds.items()))
    if len(nodes) < 2:
        return
    usual, _ = Counter(nodes.values()).most_common(1)[0]
    odd = {node: cards for node, cards in nodes.items() if cards != usual}
    if not odd:
        yield PassedCheck(CHECK, say("every node has {cards}", cards=usual))
        return
    for node, cards in odd.items():
        fewer = not cards or cards.partition(" ")[2] == usual.partition(" ")[2]
        yield risk(
            CHECK,
            node,
            Cause.DEVICE_MAPPING,
            say("{node} has {cards}, the others have {usual}", node=node, cards=cards or "0", usual=usual),
            severity=Severity.STOPS if fewer else Severity.SLOWS,
            certainty=Certainty.POSSIBLE,
            nodes=(node,),
            remedies=(
                Remedy(
                    say("Leave this node out until it is like the others"),
                    RemedyKind.INFRASTRUCTURE,
                    say("on it: nvidia-smi -L; dmesg -T | grep -i xid"),
                    say("a node less"),
                    say("unhang check on all nodes names one kind"),
                ),
            ),
        )
