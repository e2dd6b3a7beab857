"""What the machines' samples add to the first finding, whatever detector it is of.

A busy card that only waits, a full disk behind a failed write, and, where a rank takes long for what it does, what held
this rank up: its card, its processors, its disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from unhang.causes.wording import machine_reasons
from unhang.facts.machine.machine_state import MachineSign, machine_signs, signs_of_rank, spinning_cards, storage_signs
from unhang.facts.model import Facts, RankState
from unhang.findings import Cause, Finding, Phase, Severity
from unhang.sentences import Text, say

_NO_ROOM = ("No space left", "Errno 28", "Disk quota exceeded", "inline_container.cc", "iostream error")
"""The last two are what torch.save says of a disk that took only a part of a file."""

_TAKES_LONG = (
    *(Cause.SINGLE_RANK_WORK, Cause.SLOW_RANK, Cause.SLOW_DATA_LOADING, Cause.RANK_FROZEN),
    *(Cause.TIMEOUT_TOO_SHORT, Cause.UNKNOWN),
)
"""Of any other cause a slow machine is no part: the program, or another fault, stops the job."""
_STORES = (Phase.SAVE, Phase.LOG, Phase.DATA)
MAX_RANKS = 4


def note_machine_state(facts: Facts, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """``findings``, the first with what the machines tell of it."""
    if not findings or findings[0].severity is Severity.NOTE:
        return findings
    lead = findings[0]
    signs = (*_full_disks(facts, lead), *_signs_of_lead(facts, lead))
    notes = (*_spinning(facts, lead), *machine_reasons.because(signs))
    if not notes:
        return findings
    lead = replace(
        lead,
        because=(*lead.because, *notes),
        evidence=(*lead.evidence, *machine_reasons.evidence(signs)),
        remedies=(*machine_reasons.remedies(signs), *lead.remedies),
    )
    return (lead, *findings[1:])


def _spinning(facts: Facts, lead: Finding) -> Iterator[Text]:
    """A card that shows 100 % while nothing moves does no work: NCCL's kernel spins until its peers come."""
    if lead.severity is not Severity.STOPS:
        return
    ranks = tuple(sorted({sign.rank for sign in spinning_cards(facts) if sign.rank is not None} - set(lead.ranks)))
    if ranks:
        yield say(
            "the cards of {ranks:who} show full use and do no work: a collective that waits keeps its card busy",
            ranks=ranks,
        )


def _full_disks(facts: Facts, lead: Finding) -> Iterator[MachineSign]:
    """The error speaks of no room, and the samples show where there is none."""
    text = f"{lead.summary} {' '.join(item.text for item in lead.evidence)}"
    if any(word in text for word in _NO_ROOM):
        yield from (sign for sign in machine_signs(facts) if sign.kind == "disk-full")


def _signs_of_lead(facts: Facts, lead: Finding) -> Iterator[MachineSign]:
    """What the detector of a rank that takes long did not say itself of this rank's card, processors and disk."""
    if lead.cause not in _TAKES_LONG:
        return
    told = {item.text for item in lead.evidence}
    for rank in lead.ranks[:MAX_RANKS]:
        if rank in facts.ranks and facts.ranks[rank].state is RankState.STOPPED:
            continue
        storage = storage_signs(facts, (rank,))
        waits = lead.phase in _STORES or any(sign.kind == "rank-blocked" for sign in storage)
        for sign in (*signs_of_rank(facts, rank), *(storage if waits else ())):
            if sign.evidence.text not in told and len(told) < machine_reasons.MAX_SIGNS + len(lead.evidence):
                told.add(sign.evidence.text)
                yield sign
