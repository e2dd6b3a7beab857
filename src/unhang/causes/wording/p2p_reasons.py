"""What a signal says of partners of a send or receive that have gone on without their part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unhang.causes.evidence_lines import group_label, hosts_of, place_of, quote_rank, waiters_call
from unhang.facts.divergence.unmatched_p2p import UnmatchedP2P
from unhang.facts.model import Facts
from unhang.findings import Evidence, Phase
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, say


def unmatched_summary(found: UnmatchedP2P) -> Text:
    """Who went on where, and who waits for what."""
    if found.operation is None:
        return say(
            "{gone:who} ended without {gone:its|their} part in {operation}, which "
            "{waiting:who} {waiting:waits|wait} for",
            gone=found.gone,
            operation=found.left.operation,
            waiting=found.waiting,
        )
    return say(
        "{gone:who} went on to {next}, and {waiting:who} {waiting:waits|wait} in {operation} for one that "
        "{gone:it|they} never {gone:makes|make}",
        gone=found.gone,
        next=found.operation,
        operation=found.left.operation,
        waiting=found.waiting,
    )


def unmatched_parts(facts: Facts, found: UnmatchedP2P) -> dict[str, Any]:
    """The parts of a finding; no record counts sends and receives, so that it is never whole."""
    group = found.call.group if found.call is not None else found.group
    return {
        "whole": False,
        "ranks": found.gone,
        "nodes": hosts_of(facts, found.gone),
        "group": group_label(facts, group),
        "phase": Phase.COMMUNICATION,
        "where": place_of(facts, found.gone[0]),
        "waiter_where": place_of(facts, found.waiting[0]),
        "calls": (*waiters_call(found.gone, found.call), *waiters_call(found.waiting[:1], found.left)),
        "because": tuple(_because(found)),
        "evidence": tuple(_evidence(facts, found)),
        "remedies": (remedy("equalize-sends-and-receives"),),
    }


def _because(found: UnmatchedP2P) -> Iterator[Text]:
    if found.operation is None:
        yield say("{gone:who} {gone:has|have} ended with exit code 0, as if all were done", gone=found.gone)
        return
    if found.past_line is not None:
        yield say(
            "{gone:who} had {gone:its|their} part at line {line}, above where {gone:it stands|they stand} now",
            gone=found.gone,
            line=found.past_line,
        )
    else:
        yield say(
            "{waiting:who} {waiting:is|are} in a send or receive with {gone:who}, "
            "which {gone:stands|stand} in a collective",
            waiting=found.waiting,
            gone=found.gone,
        )
    if found.past_test:
        yield say("{gone:who} {gone:comes|come} to it only where `{test}`", gone=found.gone, test=found.past_test)
    yield say("that call returns only when the others come too: neither side can go on")


def _evidence(facts: Facts, found: UnmatchedP2P) -> Iterator[Evidence]:
    if found.call is not None:
        yield found.call.evidence
    else:
        yield from quote_rank(facts.ranks[found.gone[0]])[:1]
    yield found.left.evidence
