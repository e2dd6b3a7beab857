"""The remedy that takes other cards: pasted as it is only where the user left the choice to us."""

from __future__ import annotations

from unhang.check.devices.chosen_cards import ChosenCards
from unhang.check.devices.devices import Card
from unhang.findings import Remedy, RemedyKind
from unhang.sentences import Text, say


def other_cards(chosen: ChosenCards, better: tuple[Card, ...], why: Text, verify: Text) -> Remedy:
    """Cards that the user named may be those lent to them, and an idle card is not therefore theirs."""
    indices = [card.index for card in better]
    if chosen.named:
        title = say("Use cards {cards} if they are yours to use", cards=indices)
        return Remedy(title, RemedyKind.CONFIG, why, say("none"), verify, set=_visible(indices))
    title = say("Use cards {cards}", cards=indices)
    return Remedy(title, RemedyKind.ENVIRONMENT, why, say("none"), verify, set=_visible(indices))


def _visible(indices: list[int]) -> dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": ",".join(str(index) for index in indices)}
