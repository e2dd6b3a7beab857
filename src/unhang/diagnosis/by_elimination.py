"""Which rank it was, where the finding itself cannot tell: the one that is left when the others are accounted for."""

from __future__ import annotations

import re
from dataclasses import replace

from unhang.facts.log_waits import incident_of
from unhang.facts.model import Facts
from unhang.facts.spanning_work import absent_rank
from unhang.findings import Cause, Finding, Text, say
from unhang.knowledge import numbers

OF_ONE_RANK = frozenset(
    (
        Cause.GPU_OOM,
        Cause.GPU_HARDWARE,
        Cause.HOST_MEMORY,
        Cause.RANK_CRASHED,
        Cause.RANK_FROZEN,
        Cause.SINGLE_RANK_WORK,
        Cause.SLOW_DATA_LOADING,
        Cause.SLOW_RANK,
        Cause.UNEVEN_DATA,
    )
)
"""Causes that lie with one rank, or a few."""
OF_SOME = frozenset((Cause.DEVICE_MAPPING, Cause.RANK_CONDITIONAL_COLLECTIVE, Cause.RENDEZVOUS, Cause.NETWORK_FAULT))
"""Causes that lie with a few ranks, where a line names them."""
_NAMED = re.compile(r"(?<!\w)(?:rank[ =:#]|Rank[=:#]|(?<!\[)Rank )(\d{1,5})\b(?! ?/)")
_OF_WAITERS = re.compile(r"Watchdog|ProcessGroup|timed? ?out")
"""Lines that name who waits, not whom they wait for."""
MOST_NAMED = 2
_MOST_LETTERS = 60
"""Letters: so much of a message tells it from others."""
_CARD = re.compile(r"\b(?:GPU|NPU|cuda:|device:?)\s?(\d{1,2})\b")
_MOST_CARDS = 16


def naming_who_is_left(facts: Facts, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """``findings``; the first, if it names no rank and lies with one, names the one that is left."""
    first = findings[0] if findings else None
    if first is None or first.cause not in OF_ONE_RANK | OF_SOME or (first.ranks and not _is_everybody(facts, first)):
        return findings
    named = _named(facts, first)
    if named:
        return (replace(first, ranks=named), *findings[1:])
    if first.ranks or first.cause not in OF_ONE_RANK:
        return findings
    left = _left(facts) or _by_its_card(facts, first) or _main(facts, first)
    if left is None:
        return findings
    rank, because = left
    return (replace(first, ranks=(rank,), because=(*first.because, because)), *findings[1:])


def _is_everybody(facts: Facts, finding: Finding) -> bool:
    return len(finding.ranks) > MOST_NAMED and len(finding.ranks) >= (facts.world_size or len(facts.ranks))


def _named(facts: Facts, finding: Finding) -> tuple[int, ...]:
    """The one or two ranks that the first line it rests on speaks of."""
    told = next(iter(_texts(facts, finding)), "")
    if _OF_WAITERS.search(told):
        return ()
    ranks = {rank for found in _NAMED.finditer(told) if (rank := numbers.rank(found[1])) is not None}
    return tuple(sorted(ranks)) if len(ranks) <= MOST_NAMED else ()


def _texts(facts: Facts, finding: Finding) -> list[str]:
    """What it rests on; of an exception the whole message."""
    raised = [(t.message[:_MOST_LETTERS], t.message) for t in facts.tracebacks if t.message]
    return [
        next((message for beginning, message in raised if beginning in item.text), item.text)[:2000]
        for item in finding.evidence
    ]


def _left(facts: Facts) -> tuple[int, Text] | None:
    incident = incident_of(facts)
    rank = absent_rank(facts, incident)
    if incident is None or rank is None or (len(incident.ranks) < 2 and facts.world_size != 2):
        return None
    return rank, say("rank {rank} is the one that did not wait in vain", rank=rank)


def _by_its_card(facts: Facts, finding: Finding) -> tuple[int, Text] | None:
    """On one machine card and rank have the same number unless somebody mapped them otherwise; a process that sees only
    its own card calls it 0."""
    if len({known.host for known in facts.ranks.values() if known.host}) > 1 or (facts.world_size or 0) > _MOST_CARDS:
        return None
    named = {found[1] for text in _texts(facts, finding) for found in _CARD.finditer(text)}
    card = numbers.rank(named.pop()) if len(named) == 1 else None
    if not card or (facts.world_size is not None and card >= facts.world_size):
        return None
    return card, say("its line names card {card}, which on one machine is rank {card}'s", card=card)


def _main(facts: Facts, finding: Finding) -> tuple[int, Text] | None:
    """Work that one process shows a bar of is the main process' by the habit of all libraries."""
    incident = incident_of(facts)
    if finding.cause is not Cause.SINGLE_RANK_WORK or (incident is not None and 0 in incident.rank_set):
        return None
    return 0, say("bars and messages of work that one process does alone come from the main process")
