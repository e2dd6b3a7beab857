"""Whether the job's cards can exchange anything directly, and whether NCCL would be told wrongly that they can."""

from __future__ import annotations

from itertools import combinations

from unhang.check.devices.chosen_cards import ChosenCards, find_chosen_cards
from unhang.check.devices.devices import Cards
from unhang.check.devices.topology import AccessControl, CardTopology, Iommu, PeerAccess
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.job.versions import version_numbers

GOOD_DRIVER = (550, 40, 7)
"""What accelerate asks for before it leaves P2P on between RTX 40 cards (``check_cuda_p2p_ib_support``)."""


def offers_unsupported_p2p(cards: Cards, chosen: ChosenCards) -> bool:
    """Whether an old driver offers P2P between cards that have none."""
    numbers = version_numbers(cards.driver)
    return numbers is not None and numbers < GOOD_DRIVER and any("RTX 40" in card.name for card in chosen.cards)


def barred_pairs(peers: PeerAccess, chosen: ChosenCards) -> list[tuple[int, int, str]]:
    """Pairs of the job's cards that may not read each other's memory, with the state nvidia-smi gives them."""
    pairs = combinations(chosen.indices, 2)
    states = [(one, other, peers.states.get((one, other), "OK")) for one, other in pairs]
    return [pair for pair in states if pair[2] not in ("OK", "X")]


def is_p2p_redirected(here: NodeInspection) -> bool:
    """Whether what the job's cards exchange directly is sent up to the processor: the way P2P is known to hang on."""
    chosen, ways = find_chosen_cards(here), here.found(CardTopology)
    if chosen is None or len(chosen.cards) < 2 or (ways is not None and ways.linked(chosen.indices)):
        return False
    bent, iommu = here.found(AccessControl), here.found(Iommu)
    return bool(bent is not None and bent.bridges) or (iommu is not None and iommu.state == "translated")


def has_no_p2p(here: NodeInspection) -> bool:
    """Whether no two of the job's cards can exchange anything directly, so that switching P2P off costs nothing."""
    cards, chosen, peers = here.found(Cards), find_chosen_cards(here), here.found(PeerAccess)
    if cards is None or chosen is None or len(chosen.cards) < 2:
        return False
    if offers_unsupported_p2p(cards, chosen):
        return True
    count = len(chosen.cards)
    return peers is not None and len(barred_pairs(peers, chosen)) == count * (count - 1) // 2
