"""A card has fewer PCIe lanes than it could have.

What happens: a card that could have 16 lanes in its slot runs with 8 or fewer: a loose card, a bad riser, a wrong slot.

Why it hangs: it does not; loading data, and collectives without NVLink, wait for the narrow card in every step.

Example: ``pcie.link.width.current`` 4 of 16 after a riser cable came loose.

Fix: seat the card or the riser anew, choose another slot, leave the card out.

Certain when: never; some boards share lanes on purpose.

Possible when: the card tells so. (The speed is not judged: it falls while a card is idle.)
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.devices.chosen_cards import find_chosen_cards
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Evidence, PassedCheck, Remedy, RemedyKind, Severity, Source
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import say

CHECK = "topology"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for all narrow cards; a card that is as narrow as all others is its board's way."""
    chosen = find_chosen_cards(here)
    if chosen is None or not chosen.cards:
        return
    told = [(card, card.width, card.width_max) for card in chosen.cards if card.width and card.width_max]
    narrow = [(card, width, most) for card, width, most in told if width < most]
    if told and not narrow:
        yield PassedCheck(CHECK, say("every card has all its PCIe lanes"))
    if not narrow:
        return
    alike = len({width for _, width, _ in told}) == 1 and len(told) > 1
    first, width, most = narrow[0]
    yield risk(
        CHECK,
        "card " + ", ".join(str(card.index) for card, _, _ in narrow),
        Cause.SLOW_RANK,
        say("card {index} has {width} of {most} PCIe lanes", index=first.index, width=width, most=most),
        severity=Severity.NOTE if alike else Severity.SLOWS,
        certainty=Certainty.POSSIBLE if alike else Certainty.LIKELY,
        because=(say("all cards have as many: the board shares its lanes"),) if alike else (),
        evidence=tuple(
            Evidence(Source("nvidia-smi"), f"GPU {card.index}: pcie.link.width {width} / {most}")
            for card, width, most in narrow
        ),
        remedies=(
            Remedy(
                say("Seat the card or its riser anew, or leave it out"),
                RemedyKind.INFRASTRUCTURE,
                say("sudo lspci -vv -s {bus} | grep LnkSta; the kernel log may tell why", bus=first.bus),
                say("the machine is down meanwhile"),
                say("nvidia-smi --query-gpu=index,pcie.link.width.current --format=csv"),
            ),
        ),
    )
