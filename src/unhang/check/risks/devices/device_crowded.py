"""Somebody else computes on a card of the job.

What happens: another process holds memory or time of a card that the job would use.

Why it hangs: that rank is slower than the others, or runs out of memory; the others wait for it.

Example: a forgotten notebook keeps 40 GB of card 1; an inference server runs on card 0.

Fix: use idle cards, or end the other process (if it is yours).

Certain when: never; the other process may be gone before the job starts.

Possible when: memory is taken, a process is listed, or kernels run. In a container the processes of others are not
listed, but the memory they take is.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.devices.chosen_cards import ChosenCards, better_choice, find_chosen_cards, is_crowded
from unhang.check.devices.devices import Card, Cards
from unhang.check.devices.topology import CardTopology
from unhang.check.risks.devices.other_devices_remedy import other_cards
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Evidence, PassedCheck, Remedy, RemedyKind, Severity, Source
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.thresholds import threshold
from unhang.sentences import Text, say

CHECK = "devices"
FULL_SHARE = threshold("device_crowded.full_share")
"""With more than this share of its memory taken, a job that fills the other cards cannot start on this one."""


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for all such cards."""
    cards, chosen = here.found(Cards), find_chosen_cards(here)
    if cards is None or chosen is None or not chosen.cards:
        return
    crowded = [card for card in chosen.cards if is_crowded(cards, card)]
    if not crowded:
        yield PassedCheck(CHECK, say("nobody else uses the cards of the job"))
        return
    full = any(card.used > FULL_SHARE * card.memory for card in crowded)
    better = better_choice(cards, here.found(CardTopology) or CardTopology(), chosen)
    yield risk(
        CHECK,
        "card " + ", ".join(str(card.index) for card in crowded),
        Cause.GPU_OOM if full else Cause.SLOW_RANK,
        say("somebody else uses {cards:card|cards} {cards} already", cards=[card.index for card in crowded]),
        severity=Severity.STOPS if full else Severity.SLOWS,
        because=tuple(_because(cards, card) for card in crowded),
        evidence=tuple(_process(cards, card) for card in crowded),
        remedies=(*((_use(chosen, better),) if better is not None else ()), _end(cards, crowded)),
    )


def _because(cards: Cards, card: Card) -> Text:
    return say(
        "card {index}: {used} of {total} GB taken, busy {busy} % of the time, processes listed: {count}",
        index=card.index,
        used=f"{card.used / 2**30:.1f}",
        total=f"{card.memory / 2**30:.1f}",
        busy="?" if card.busy is None else card.busy,
        count=len(cards.on(card)),
    )


def _process(cards: Cards, card: Card) -> Evidence:
    told = ", ".join(f"{one.pid} {one.name} {one.used >> 20} MiB" for one in cards.on(card)[:4])
    return Evidence(Source("nvidia-smi"), f"GPU {card.index}: {card.used >> 20} MiB / {card.memory >> 20} MiB; {told}")


def _use(chosen: ChosenCards, better: tuple[Card, ...]) -> Remedy:
    return other_cards(
        chosen,
        better,
        say("cards {cards} are idle", cards=[card.index for card in better]),
        say("unhang check --only devices no longer names a card"),
    )


def _end(cards: Cards, crowded: list[Card]) -> Remedy:
    pids = [str(process.pid) for card in crowded for process in cards.on(card)]
    change = (
        say("ps -o user,pid,etime,args -p {pids}", pids=",".join(pids))
        if pids
        else say("ask on the host: nvidia-smi lists the processes there")
    )
    return Remedy(
        say("Ask the owner of the other process, or end it if it is yours"),
        RemedyKind.INFRASTRUCTURE,
        change,
        say("the other process"),
        say("nvidia-smi shows the card idle"),
    )
