"""The cards named in CUDA_VISIBLE_DEVICES are not those that are meant.

What happens: the list names a card that is not there, or one twice; it mixes kinds of cards; or its numbers count
another order than nvidia-smi's.

Why it hangs: the CUDA runtime ends the list at the first word it does not know and sees no card at all where one stands
twice: ranks without a card fail while the others wait. A slower kind makes all others wait in every step.

Example: ``CUDA_VISIBLE_DEVICES=6,7,8,9`` on a machine with eight cards; ``0,0``; an RTX 3090 beside two RTX 4090.

Fix: name cards that are there, once each, of one kind; ``CUDA_DEVICE_ORDER=PCI_BUS_ID`` on mixed machines.

Certain when: never; the job may set the list itself.

Possible when: the list or the machine mixes kinds.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.devices.chosen_cards import ChosenCards, better_choice, find_chosen_cards
from unhang.check.devices.devices import Cards, DeviceSelection
from unhang.check.devices.topology import CardTopology
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Evidence, PassedCheck, Remedy, RemedyKind, Severity, Source
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import Text, say

CHECK = "devices"
VARIABLE = "CUDA_VISIBLE_DEVICES"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge the words, then the kinds."""
    cards, choice, chosen = here.found(Cards), here.found(DeviceSelection), find_chosen_cards(here)
    if cards is None or choice is None or chosen is None:
        return
    answers = [*_words(cards, choice, chosen), *_kinds(here, cards, chosen), *_order(cards, choice)]
    yield from answers
    if not answers and chosen.named and chosen.cards:
        yield PassedCheck(CHECK, say("cards {cards} are there and of one kind", cards=list(chosen.indices)))


def _words(cards: Cards, choice: DeviceSelection, chosen: ChosenCards) -> Iterator[Answer]:
    evidence = (Evidence(Source("environment"), f"{VARIABLE}={','.join(choice.words or ())}"),)
    if chosen.unknown:
        summary = say("{word} names no card of this machine: it and every later one are not seen", word=chosen.unknown)
        yield risk(CHECK, VARIABLE, Cause.DEVICE_MAPPING, summary, evidence=evidence, remedies=(_name(cards),))
    elif chosen.twice:
        summary = say("{word} stands twice: the CUDA runtime then sees no card at all", word=chosen.twice)
        yield risk(CHECK, VARIABLE, Cause.DEVICE_MAPPING, summary, evidence=evidence, remedies=(_name(cards),))
    elif choice.words == ():
        summary = say("{name} is set and empty: no rank sees a card", name=VARIABLE)
        remedy = Remedy(
            say("Unset it"),
            RemedyKind.ENVIRONMENT,
            say("every card is seen again"),
            say("none"),
            say("torch.cuda.device_count() is right"),
            unset=(VARIABLE,),
        )
        yield risk(
            CHECK, VARIABLE, Cause.DEVICE_MAPPING, summary, certainty=Certainty.POSSIBLE, severity=Severity.SLOWS,
            evidence=evidence, remedies=(remedy,),
        )  # fmt: skip


def _name(cards: Cards) -> Remedy:
    change = say("this machine has cards {cards}", cards=[card.index for card in cards.cards])
    verify: Text = say("python -c 'import torch; print(torch.cuda.device_count())' prints as many as you named")
    return Remedy(say("Name cards that are there, once each"), RemedyKind.ENVIRONMENT, change, say("none"), verify)


def _kinds(here: NodeInspection, cards: Cards, chosen: ChosenCards) -> Iterator[Answer]:
    kinds = sorted({card.name for card in chosen.cards})
    if len(kinds) < 2:
        return
    better = better_choice(cards, here.found(CardTopology) or CardTopology(), chosen)
    yield risk(
        CHECK,
        VARIABLE,
        Cause.SLOW_RANK,
        say("the job would use different kinds of cards: {kinds}", kinds=", ".join(kinds)),
        severity=Severity.SLOWS,
        because=(say("in every step the fastest waits for the slowest, and the smallest memory sets the batch"),),
        evidence=tuple(Evidence(Source("nvidia-smi"), f"GPU {card.index}: {card.name}") for card in chosen.cards[:8]),
        remedies=(
            Remedy(
                say("Use cards of one kind"),
                RemedyKind.ENVIRONMENT,
                say("export {name} with the numbers of one kind, and start as many processes", name=VARIABLE),
                say("fewer cards") if better is None else say("none"),
                say("nvidia-smi -L"),
                set={} if better is None else {VARIABLE: ",".join(str(card.index) for card in better)},
            ),
        ),
    )


def _order(cards: Cards, choice: DeviceSelection) -> Iterator[Answer]:
    numbers = choice.words is not None and any(word.isdecimal() for word in choice.words)
    if len({card.name for card in cards.cards}) < 2 or choice.order == "PCI_BUS_ID" or not numbers:
        return
    yield risk(
        CHECK,
        "CUDA_DEVICE_ORDER",
        Cause.DEVICE_MAPPING,
        say("the numbers in {name} count the fastest card first, nvidia-smi's count the bus", name=VARIABLE),
        severity=Severity.NOTE,
        certainty=Certainty.POSSIBLE,
        remedies=(
            Remedy(
                say("Let both count alike"),
                RemedyKind.ENVIRONMENT,
                say("numbers are then those of nvidia-smi"),
                say("none"),
                say("torch.cuda.get_device_name(i) is the name nvidia-smi gives"),
                set={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
            ),
        ),
    )
