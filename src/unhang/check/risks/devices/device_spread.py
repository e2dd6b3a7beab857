"""The cards of the job lie far from each other, and nearer ones are free.

What happens: the cards have no NVLink, and some stand at one processor, some at the other: what they exchange crosses
from processor to processor.

Why it hangs: it does not by itself; collectives are slower, and ways between processors are where P2P over PCIe fails
first.

Example: cards 6 to 9 of a machine with eight cards at the first processor and four at the second.

Fix: as many cards of one processor, named in ``CUDA_VISIBLE_DEVICES``.

Certain when: never; NCCL chooses its ways at run time.

Possible when: nvidia-smi tells a nearer set of idle cards of the same kind.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.devices.chosen_cards import (
    ChosenCards,
    better_choice,
    farthest_link,
    find_chosen_cards,
    topology_from_numa,
)
from unhang.check.devices.devices import Card, Cards, PciCards
from unhang.check.devices.topology import DISTANCES, CardTopology
from unhang.check.risks.devices.other_devices_remedy import other_cards
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, Evidence, PassedCheck, Severity, Source
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import say

CHECK = "topology"
_MEANING = {
    "NV": say("NVLink"),
    "PIX": say("one PCIe switch"),
    "PXB": say("several PCIe switches"),
    "PHB": say("the processor's PCIe host bridge"),
    "NODE": say("several host bridges of one processor"),
    "SYS": say("the link between processors"),
}
SLOW = DISTANCES.index("SYS")


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Compare the chosen cards with the best as many."""
    result, cards, chosen = here.result(CardTopology), here.found(Cards), find_chosen_cards(here)
    gap = could_not(CHECK, say("How the cards reach each other"), result)
    if gap is not None:
        yield gap
    if cards is None or chosen is None or len(chosen.cards) < 2:
        return
    ways = result.found or topology_from_numa(cards, here.found(PciCards) or PciCards())
    worst = farthest_link(ways, chosen.cards)
    if worst is None:
        return
    way = _MEANING[DISTANCES[worst]]
    better = better_choice(cards, ways, chosen)
    nearer = None if better is None else farthest_link(ways, better)
    if better is None or nearer is None or nearer >= worst or (worst < SLOW and nearer > 0):
        yield PassedCheck(CHECK, say("cards {cards} reach each other over {way}", cards=list(chosen.indices), way=way))
        return
    yield _finding(ways, chosen, better, worst, nearer)


def _finding(ways: CardTopology, chosen: ChosenCards, better: tuple[Card, ...], worst: int, nearer: int) -> Answer:
    numa = {ways.numa[index] for index in chosen.indices if index in ways.numa}
    summary = (
        say(
            "cards {cards} stand at {count} NUMA nodes: what they exchange crosses between processors",
            cards=list(chosen.indices),
            count=len(numa),
        )
        if worst == SLOW and len(numa) > 1
        else say(
            "cards {cards} reach each other over {way} only", cards=list(chosen.indices), way=_MEANING[DISTANCES[worst]]
        )
    )
    indices = [card.index for card in better]
    evidence = [f"GPU{index}: NUMA {ways.numa.get(index, '?')}" for index in chosen.indices]
    source = Source("nvidia-smi topo -m" if ways.told else "/sys/bus/pci/devices")
    return risk(
        CHECK,
        "CUDA_VISIBLE_DEVICES",
        Cause.DEVICE_MAPPING,
        summary,
        severity=Severity.SLOWS,
        because=(say("cards {cards} are idle and join over {way}", cards=indices, way=_MEANING[DISTANCES[nearer]]),),
        evidence=(Evidence(source, "; ".join(evidence)),),
        remedies=(
            other_cards(
                chosen,
                better,
                say("cards of the same kind, idle, and nearer to each other"),
                say("unhang check --only topology says how they reach each other"),
            ),
        ),
    )
