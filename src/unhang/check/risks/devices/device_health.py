"""A card is ill or hot.

What happens: the kernel log holds Xids of a card, its memory has errors that could not be corrected or rows that wait
for a reset, or its hardware holds the clocks down for heat or power.

Why it hangs: a card that fails in a collective leaves all others in it; one that is slow makes all others wait.

Example: Xid 79 (fell off the bus), Xid 74 (NVLink); ``HW Thermal Slowdown: Active``; a row remapping that is pending.

Fix: take the card or the node out, reset the card, test it with ``dcgmi diag -r 3``, look at its cooling.

Certain when: never; a card may work for days after an error.

Possible when: the kernel log or the card itself tells it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.check.devices.chosen_cards import find_chosen_cards
from unhang.check.devices.devices import Card, CardHealth, Cards, Xid, XidHistory
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, Certainty, Evidence, PassedCheck, Remedy, RemedyKind, Severity, Source
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.hardware.xid import xid_row
from unhang.sentences import Text, say

CHECK = "devices"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding a card and complaint."""
    cards = here.found(Cards)
    if cards is None or not cards.cards:
        return
    xids, health = here.result(XidHistory), here.result(CardHealth)
    gaps = (
        could_not(CHECK, say("Xids in the kernel log"), xids),
        could_not(CHECK, say("Heat and memory repairs"), health),
    )
    yield from (gap for gap in gaps if gap is not None)
    count = 0
    for card in cards.cards:
        mine = [xid for xid in (xids.found or XidHistory()).xids if card.bus and card.bus.startswith(xid.bus)]
        for answer in _of_card(card, mine, health.found or CardHealth(), ours=_is_ours(here, card)):
            count += 1
            yield answer
    if not count and health.found is not None:
        yield PassedCheck(CHECK, say("no card is hot, throttled or waits for a repair"))


def _is_ours(here: NodeInspection, card: Card) -> bool:
    chosen = find_chosen_cards(here)
    return chosen is None or card in chosen.cards


def _of_card(card: Card, xids: Sequence[Xid], health: CardHealth, *, ours: bool) -> Iterator[Answer]:
    rows = {xid.code: row for xid in xids if (row := xid_row(xid.code)) is not None and row.kind in ("gpu", "link")}
    for code, row in rows.items():
        lines = [xid.line for xid in xids if xid.code == code]
        summary = say(
            "card {index} had Xid {code} since boot: {meaning}", index=card.index, code=code, meaning=row.meaning
        )
        severity = Severity.NOTE if row.doubt else Severity.STOPS
        yield _finding(card, summary, severity if ours else Severity.NOTE, "dmesg", lines[-1], Certainty.POSSIBLE)
    if card.uncorrected:
        summary = say(
            "card {index} has memory errors that could not be corrected: {count}",
            index=card.index,
            count=card.uncorrected,
        )
        told = f"ecc.errors.uncorrected.volatile.total: {card.uncorrected}"
        yield _finding(card, summary, Severity.STOPS if ours else Severity.NOTE, "nvidia-smi", told, Certainty.POSSIBLE)
    state = health.remapping.get(card.uuid)
    if state is not None:
        summary = _repair(card, state)
        told = f"remapped_rows.{state}: Yes"
        yield _finding(card, summary, Severity.STOPS if ours else Severity.NOTE, "nvidia-smi", told, Certainty.POSSIBLE)
    slowed = health.slowed.get(card.uuid)
    if slowed:
        yield _slowed(card, slowed, ours=ours)


def _repair(card: Card, state: str) -> Text:
    if state == "failure":
        return say("card {index} has no spare memory rows left", index=card.index)
    return say("card {index} waits for a reset to replace bad memory rows", index=card.index)


def _finding(card: Card, summary: Text, severity: Severity, source: str, told: str, certainty: Certainty) -> Answer:
    remedy = Remedy(
        say("Leave the card out until it is tested"),
        RemedyKind.INFRASTRUCTURE,
        say("sudo nvidia-smi -i {index} --gpu-reset, then dcgmi diag -r 3", index=card.index),
        say("the card is gone for the other jobs meanwhile"),
        say("dcgmi diag -r 3 passes and no new Xid comes"),
    )
    return risk(
        CHECK,
        f"card {card.index}",
        Cause.GPU_HARDWARE,
        summary,
        severity=severity,
        certainty=certainty,
        evidence=(Evidence(Source(source), told),),
        remedies=(remedy,),
    )


def _slowed(card: Card, reasons: Sequence[str], *, ours: bool) -> Answer:
    return risk(
        CHECK,
        f"card {card.index}",
        Cause.SLOW_RANK,
        say("card {index} holds its clocks down: {reasons}", index=card.index, reasons=", ".join(reasons)),
        severity=Severity.SLOWS if ours else Severity.NOTE,
        evidence=(Evidence(Source("nvidia-smi"), f"GPU {card.index}: {', '.join(reasons)} Active"),),
        remedies=(
            Remedy(
                say("Look at its cooling and power before the job starts"),
                RemedyKind.INFRASTRUCTURE,
                say("nvidia-smi -i {index} -q -d PERFORMANCE,TEMPERATURE,POWER", index=card.index),
                say("none"),
                say("the reasons are Not Active under load"),
            ),
        ),
    )
