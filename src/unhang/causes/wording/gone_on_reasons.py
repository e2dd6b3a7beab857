"""What a signal says of ranks that have gone on without their part in a call, and of those that wait for it there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from unhang.causes.evidence_lines import group_label, hosts_of, place_of, quote_rank, waiters_call
from unhang.facts.divergence.skipped_calls import SkippedCollective, UnmatchedP2P
from unhang.facts.model import Facts
from unhang.findings import Phase, Remedy
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
    """The parts of a finding on a send or receive without its other half."""
    group = found.call.group if found.call is not None else found.group
    return _parts(facts, found, group, _because(found), remedy("equalize-sends-and-receives"))


def skipped_call_parts(facts: Facts, found: SkippedCollective) -> dict[str, Any]:
    """The parts of a finding on a collective that some went around."""
    mended = remedy("call-on-all-members", operation=found.left.operation)
    return _parts(facts, found, found.left.group, _because_skipped(facts, found), mended)


def _parts(
    facts: Facts, found: UnmatchedP2P | SkippedCollective, group: str, because: Iterable[Text], mended: Remedy
) -> dict[str, Any]:
    """Never whole: no record counts sends and receives, and a call that was queued may be behind the line seen."""
    stands = [found.call.evidence] if found.call is not None else quote_rank(facts.ranks[found.gone[0]])[:1]
    return {
        "whole": False,
        "ranks": found.gone,
        "nodes": hosts_of(facts, found.gone),
        "group": group_label(facts, group),
        "phase": Phase.COMMUNICATION,
        "where": place_of(facts, found.gone[0]),
        "waiter_where": place_of(facts, found.waiting[0]),
        "calls": (*waiters_call(found.gone, found.call), *waiters_call(found.waiting[:1], found.left)),
        "because": tuple(because),
        "evidence": (*stands, found.left.evidence),
        "remedies": (mended,),
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


def _because_skipped(facts: Facts, found: SkippedCollective) -> Iterator[Text]:
    yield say(
        "{gone:who} {gone:stands|stand} at line {below}, below line {line} of the same block, and has not entered the "
        "call there",
        gone=found.gone,
        below=found.gone_line,
        line=found.line,
    )
    if found.test_line is not None:
        yield say(
            "that call is reached only where line {line} lets it: `{test}`", line=found.test_line, test=found.test
        )
    yield say(
        "there {gone:who} {gone:waits|wait} in group {group} for {waiting:who}: neither side can go on",
        gone=found.gone,
        group=group_label(facts, found.call.group),
        waiting=found.waiting,
    )
