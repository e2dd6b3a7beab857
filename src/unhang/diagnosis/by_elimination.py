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
_CARD = re.compile(r"\b(?:GPU|NPU|cuda:|device:?)\s?(\d{1,2})\b")
_MOST_CARDS = 16


def naming_who_is_left(facts: Facts, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """``findings``; the first, if it names no rank and lies with one, names the one that is left."""
    if not findings or findings[0].ranks or findings[0].cause not in OF_ONE_RANK:
        return findings
    first = findings[0]
    left = _left(facts) or _by_its_card(facts, first) or _main(facts, first)
    if left is None:
        return findings
    rank, because = left
    return (replace(first, ranks=(rank,), because=(*first.because, because)), *findings[1:])


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
    named = {found[1] for item in finding.evidence for found in _CARD.finditer(item.text)}
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
